// mica.profiler.
#include "mica/profile/memory.h"
#include "mica/profile/profile.h"

#include "python/src/bindings.h"

namespace mica::python {

void bind_profiler(nb::module_& m) {
  using namespace profiler;
  nb::module_ scope = add_submodule(m, "profiler");
  nb::class_<Profiler>(scope, "Profiler")
      .def(
          "__init__",
          [](Profiler* self, int wait, int warmup, int active, int repeat) {
            new (self) Profiler(Schedule{wait, warmup, active, repeat});
          },
          nb::arg("wait") = 0, nb::arg("warmup") = 0, nb::arg("active") = 0, nb::arg("repeat") = 0)
      .def("start", &Profiler::start)
      .def("step", &Profiler::step)
      .def("stop", &Profiler::stop)
      .def(
          "table",
          [](const Profiler& self, const std::string& by, int rows) {
            return table(self.profile(), by_of(by), rows);
          },
          nb::arg("by") = "op", nb::arg("rows") = 25)
      .def("advice", [](const Profiler& self) { return advice(self.profile()); })
      .def("json", [](const Profiler& self) { return to_json(self.profile()); })
      .def(
          "export_chrome_trace",
          [](const Profiler& self, const std::string& path) {
            export_chrome_trace(self.profile(), path);
          },
          nb::arg("path"))
      .def(
          "report",
          [](const Profiler& self, const std::string& path) { write_report(self.profile(), path); },
          nb::arg("path"));
  scope.def(
      "largest_batch",
      [](const nb::callable& step, uint64_t memory) {
        return largest_batch([&](int64_t batch) { step(batch); }, memory);
      },
      nb::arg("step"), nb::arg("memory"));
  // A range is entered and left by calls: Python's blocks are not those of C++.
  nb::class_<Range>(scope, "Range")
      .def(
          "__init__", [](Range* self, const std::string& name) { new (self) Range(name); },
          nb::arg("name"));
}

}  // namespace mica::python
