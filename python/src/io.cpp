// mica.io: tensors, checkpoints, images and measurements in files.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>

#include "mica/io/checkpoint.h"
#include "mica/io/event_writer.h"
#include "mica/io/image.h"
#include "mica/io/metrics_log.h"
#include "mica/io/safetensors.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

using Path = std::filesystem::path;
using Named = StateDict;
using Texts = std::map<std::string, std::string>;

io::ByteSpan bytes_of(const nb::bytes& data) {
  return {reinterpret_cast<const std::byte*>(data.c_str()), data.size()};
}

void bind_tensors(nb::module_& m) {
  nb::class_<io::Safetensors>(m, "Safetensors", "What a safetensors file holds.")
      .def_ro("tensors", &io::Safetensors::tensors, "By name.")
      .def_ro("metadata", &io::Safetensors::metadata, "Texts by name.")
      .def("__repr__", shows({"tensors", "metadata"}));
  m.def(
      "load_safetensors", [](const Path& path) { return io::load_safetensors(path.string()); },
      "path"_a, ReleaseGil(), "Reads a file into tensors; they are copies of what it holds.");
  m.def(
      "save_safetensors",
      [](const Path& path, const Named& tensors, const Texts& metadata) {
        io::save_safetensors(path.string(), tensors, metadata);
      },
      "path"_a, "tensors"_a, "metadata"_a = Texts(), ReleaseGil(),
      "Writes tensors of any device and layout, all or nothing.");
  nb::class_<io::Checkpoint>(m, "Checkpoint", "Everything a run needs to go on.")
      .def(
          "__init__",
          [](io::Checkpoint* self, const Named& model, const Named& optimizer,
             const Texts& metadata) { new (self) io::Checkpoint{model, optimizer, metadata}; },
          "model"_a = Named(), "optimizer"_a = Named(), "metadata"_a = Texts())
      .def_rw("model", &io::Checkpoint::model, "The model's state_dict.")
      .def_rw("optimizer", &io::Checkpoint::optimizer, "The optimizer's state_dict.")
      .def_rw("metadata", &io::Checkpoint::metadata, "Texts by name.");
  m.def(
      "save_checkpoint",
      [](const Path& path, const io::Checkpoint& c) { io::save_checkpoint(path.string(), c); },
      "path"_a, "checkpoint"_a, ReleaseGil(), "All or nothing.");
  m.def(
      "load_checkpoint", [](const Path& path) { return io::load_checkpoint(path.string()); },
      "path"_a, ReleaseGil(), "Reads what save_checkpoint wrote.");
  m.def(
      "random_state",
      [](nb::handle device) {
        return without_gil([d = parse_device(device)] { return io::random_state(d); });
      },
      "device"_a = "cpu", "The state of the random generators, as text.");
  m.def(
      "set_random_state",
      [](const std::string& text, nb::handle device) {
        without_gil(
            [&, d = parse_device(device)] { io::set_random_state(text, d, "set_random_state"); });
      },
      "text"_a, "device"_a = "cpu", "Goes on from it.");
}

void bind_images(nb::module_& m) {
  m.def(
      "read_image",
      [](const Path& path, int64_t channels, Size2 at_least) {
        return io::read_image(path.string(), {.channels = channels, .at_least = at_least});
      },
      "path"_a, "channels"_a = 0, "at_least"_a = 0, ReleaseGil(),
      "A PNG or JPEG file as uint8 (C, H, W); channels: 1, 3, or 0 for the file's own. at_least: a "
      "height and a width that a JPEG file may be decoded down to, by a half, a quarter or an "
      "eighth.");
  m.def(
      "decode_image",
      [](const nb::bytes& data, int64_t channels, Size2 at_least) {
        return without_gil([&, bytes = bytes_of(data)] {
          return io::decode_image(bytes, "decode_image",
                                  {.channels = channels, .at_least = at_least});
        });
      },
      "data"_a, "channels"_a = 0, "at_least"_a = 0, "The same from bytes.");
  m.def(
      "encode_png",
      [](const Tensor& image) {
        const auto bytes = without_gil([&] { return io::encode_png(image); });
        return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      },
      "image"_a, "A uint8 image (C, H, W) or (H, W) as the bytes of a PNG file.");
  m.def(
      "write_png",
      [](const Path& path, const Tensor& image) { io::write_png(path.string(), image); }, "path"_a,
      "image"_a, ReleaseGil(), "Writes a uint8 image (C, H, W) or (H, W) to a PNG file.");
}

void bind_logs(nb::module_& m) {
  nb::class_<io::EventWriter>(m, "EventWriter", "Writes scalars to a file that TensorBoard shows.")
      .def(
          "__init__",
          [](io::EventWriter* self, const Path& directory, int64_t first_step) {
            new (self) io::EventWriter(directory.string(), first_step);
          },
          "directory"_a, "first_step"_a = 0, ReleaseGil())
      .def(
          "scalar",
          [](io::EventWriter& self, const std::string& tag, double value, int64_t step) {
            self.scalar(tag, value, step);
          },
          "tag"_a, "value"_a, "step"_a, ReleaseGil(), "Writes the value of a curve at a step.")
      .def_prop_ro("path", &io::EventWriter::path, "The file.");
  nb::class_<io::MetricsLog>(m, "MetricsLog", "A file of measurements, one JSON object a line.")
      .def(
          "__init__",
          [](io::MetricsLog* self, const Path& path, int64_t resume_step) {
            new (self) io::MetricsLog(path.string(), resume_step);
          },
          "path"_a, "resume_step"_a = 0, ReleaseGil())
      .def(
          "write",
          [](io::MetricsLog& self, int64_t step, const nb::kwargs& values) {
            std::vector<std::pair<std::string, double>> row;
            for (auto [name, value] : values)
              row.emplace_back(nb::cast<std::string>(name), nb::cast<double>(value));
            without_gil([&] { self.write(step, row); });
          },
          "step"_a, "values"_a, "Writes a line: write(100, loss=0.5).");
}

}  // namespace

void bind_tree(nb::module_& m);  // in tree.cpp

void bind_io(nb::module_& m) {
  bind_tree(m);
  nb::module_ scope = add_submodule(m, "io");
  bind_tensors(scope);
  bind_images(scope);
  bind_logs(scope);
}

}  // namespace mica::python
