// mica.cuda: devices, streams and events. Streams of the CPU stand for the order of a thread.
#include <nanobind/stl/pair.h>

#include "mica/core/memory.h"
#include "mica/ops/copy/copy.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/runtime.h"
#include "mica/runtime/stream.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

/// A device, or the first CUDA device for None.
Device device_or_cuda(nb::handle device) {
  return parse_device(device.is_none() ? nb::int_(0) : device);
}

/// `with mica.cuda.stream(s):` in this thread.
class StreamContext {
 public:
  explicit StreamContext(const Stream& stream) : stream_(stream) {}
  void enter() { guard_.emplace(stream_); }
  void exit() { guard_.reset(); }

 private:
  Stream stream_;
  std::optional<StreamGuard> guard_;
};

void bind_streams(nb::module_& m) {
  nb::class_<Event>(m, "Event", "A point in a stream's order.")
      .def(nb::init<>())
      .def("record", &Event::record, "stream"_a,
           "The point behind everything sent to the stream so far.")
      .def("synchronize", &Event::synchronize, ReleaseGil(), "Waits until the point is reached.")
      .def("query", &Event::query, "Whether the point is reached.")
      .def(
          "elapsed_time", [](const Event& self, const Event& end) { return end.elapsed_ms(self); },
          "end_event"_a, ReleaseGil(), "Milliseconds from this to the other; waits for both.");
  nb::class_<Stream>(m, "Stream", "An order of work on a device.")
      .def(
          "__init__",
          [](Stream* self, nb::handle device) {
            const Device d = device_or_cuda(device);
            new (self) Stream(without_gil([&] { return Stream::create(d); }));
          },
          "device"_a = nb::none())
      .def_prop_ro("device", &Stream::device, "Whose work it orders.")
      .def_prop_ro(
          "cuda_stream",
          [](const Stream& self) {
            return without_gil([&] {
              const StreamGuard guard(self);
              return reinterpret_cast<uintptr_t>(
                  cuda_library().current_stream(self.device().index));
            });
          },
          "CUDA's own handle of it, a number, for other libraries.")
      .def("synchronize", &Stream::synchronize, ReleaseGil(),
           "Waits until everything sent to it is done.")
      .def("query", &Stream::query, "Whether everything sent to it is done.")
      .def("wait_event", &Stream::wait, "event"_a, "What is sent afterwards runs after the event.")
      .def("__eq__", [](const Stream& a, const Stream& b) { return a == b; });
  nb::class_<StreamContext>(m, "StreamContext", "What stream() returns.")
      .def("__enter__", &StreamContext::enter)
      .def("__exit__", [](StreamContext& self, const nb::args&) { self.exit(); });
  m.def(
      "stream", [](const Stream& s) { return new StreamContext(s); }, "stream"_a,
      nb::rv_policy::take_ownership,
      "with stream(s): this thread sends its work for the device to s.");
  m.def(
      "current_stream",
      [](nb::handle device) {
        return without_gil([d = device_or_cuda(device)] { return current_stream(d); });
      },
      "device"_a = nb::none(), "The stream to which this thread sends its work for the device.");
  m.def(
      "default_stream",
      [](nb::handle device) {
        return without_gil([d = device_or_cuda(device)] { return default_stream(d); });
      },
      "device"_a = nb::none(), "The stream that a thread uses unless it names another.");
  m.def("record_stream", record_stream, "tensor"_a, "stream"_a,
        "Work on the stream uses the tensor's memory: it is not used again before that is done.");
}

void bind_pinned() {
  auto tensor = nb::borrow<nb::class_<Tensor>>(nb::type<Tensor>());
  tensor.def("pin_memory", pin_memory, ReleaseGil(),
             "Itself, or a copy in memory that CUDA copies from while the program goes on.");
  tensor.def("is_pinned", is_pinned, "Whether its memory is pinned: see pin_memory.");
}

nb::dict properties(int index) {
  const DeviceProperties p =
      without_gil([&] { return runtime(DeviceKind::cuda).properties(index); });
  nb::dict d;
  d["name"] = p.name;
  d["memory"] = p.memory;
  d["free_memory"] = p.free_memory;
  d["multiprocessors"] = p.multiprocessors;
  d["compute_capability"] = p.compute_capability;
  d["driver_version"] = p.driver_version;
  d["runtime_version"] = p.runtime_version;
  return d;
}

/// What PyTorch asks of the allocator; 0 where there is no CUDA.
void bind_memory(nb::module_& m) {
  struct Row {
    const char* name;
    size_t MemoryStats::* value;
    const char* doc;
  };
  constexpr Row kRows[] = {
      {"memory_allocated", &MemoryStats::allocated, "Bytes in use by tensors; 0 without CUDA."},
      {"max_memory_allocated", &MemoryStats::peak,
       "The most bytes in use by tensors so far; 0 without CUDA."},
      {"memory_reserved", &MemoryStats::reserved, "Bytes taken from the device; 0 without CUDA."},
      {"max_memory_reserved", &MemoryStats::peak_reserved,
       "The most bytes taken from the device so far; 0 without CUDA."},
  };
  for (const Row& row : kRows) {
    m.def(
        row.name,
        [value = row.value](nb::handle device) {
          return without_gil([&, d = device_or_cuda(device)] {
            return cuda_available() ? memory_stats(d).*value : 0;
          });
        },
        "device"_a = nb::none(), row.doc);
  }
  m.def(
      "reset_peak_memory_stats",
      [](nb::handle device) {
        without_gil([d = device_or_cuda(device)] {
          if (cuda_available()) reset_peak(d);
        });
      },
      "device"_a = nb::none(), "Starts both peaks again from what is in use now.");
  m.def(
      "empty_cache",
      [] {
        if (!cuda_available()) return;
        for (int i = 0; i < runtime(DeviceKind::cuda).device_count(); ++i)
          empty_cache(Device::cuda(i));
      },
      ReleaseGil(), "Gives cached blocks of all CUDA devices back.");
  m.def(
      "mem_get_info",
      [](nb::handle device) {
        return without_gil([d = device_or_cuda(device)] {
          const DeviceProperties p = runtime(DeviceKind::cuda).properties(d.index);
          return std::pair(p.free_memory, p.memory);
        });
      },
      "device"_a = nb::none(), "(free, total) bytes of a CUDA device.");
}

/// Restarts a CUDA device's generator alone.
void seed(int index, uint64_t value) {
  const auto first = static_cast<int64_t>(value);
  copy_(rng_state(Device::cuda(index)), tensor({first, int64_t{0}}, {2}));
}

void bind_seeds(nb::module_& m) {
  m.def(
      "manual_seed",
      [](uint64_t value) {
        if (cuda_available()) seed(0, value);
      },
      "seed"_a, ReleaseGil(), "Restarts the first CUDA device's generator; nothing without CUDA.");
  m.def(
      "manual_seed_all",
      [](uint64_t value) {
        if (!cuda_available()) return;
        for (int i = 0; i < runtime(DeviceKind::cuda).device_count(); ++i) seed(i, value);
      },
      "seed"_a, ReleaseGil(), "Restarts every CUDA device's generator; nothing without CUDA.");
}

}  // namespace

void bind_cuda(nb::module_& m) {
  nb::module_ cuda = add_submodule(m, "cuda");
  cuda.def("is_available", cuda_available, ReleaseGil(), "Whether a CUDA device can be used.");
  cuda.def("unavailable_reason", cuda_unavailable_reason, ReleaseGil(),
           "Why CUDA cannot be used, in one sentence; empty when it can.");
  cuda.def(
      "device_count",
      [] { return cuda_available() ? runtime(DeviceKind::cuda).device_count() : 0; }, ReleaseGil(),
      "How many CUDA devices can be used; 0 where none can.");
  cuda.def(
      "get_device_name", [](int index) { return runtime(DeviceKind::cuda).properties(index).name; },
      "index"_a = 0, ReleaseGil(), "The name of a CUDA device.");
  cuda.def(
      "get_device_properties", properties, "index"_a = 0,
      "Name, memory in bytes, multiprocessors, compute capability and versions of a CUDA device.");
  cuda.def(
      "synchronize",
      [](nb::handle device) { without_gil([d = device_or_cuda(device)] { synchronize(d); }); },
      "device"_a = nb::none(), "Waits until everything sent to the device is done.");
  cuda.def(
      "current_device",
      [] {
        check<DeviceError>(cuda_available(), "current_device: {}", cuda_unavailable_reason());
        return 0;
      },
      ReleaseGil(), "0: the CUDA device that is meant where none is named.");
  bind_memory(cuda);
  bind_seeds(cuda);
  bind_streams(cuda);
  bind_pinned();
}

}  // namespace mica::python
