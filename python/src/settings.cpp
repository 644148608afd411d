#include "mica/core/allocation_fault.h"
#include "mica/runtime/runtime.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

std::vector<Device> devices() {
  std::vector<Device> all = {Device::cpu()};
  if (cuda_available()) {
    for (int i = 0; i < runtime(DeviceKind::cuda).device_count(); ++i)
      all.push_back(Device::cuda(i));
  }
  return all;
}

void bind_memory(nb::module_& m) {
  m.def(
      "memory_stats",
      [](nb::handle device) {
        const MemoryStats s = without_gil([d = parse_device(device)] { return memory_stats(d); });
        nb::dict d;
        d["allocated"] = s.allocated;
        d["reserved"] = s.reserved;
        d["peak"] = s.peak;
        d["peak_reserved"] = s.peak_reserved;
        d["cached"] = s.cached;
        d["largest_free"] = s.largest_free;
        d["allocations"] = s.allocations;
        d["limit"] = s.limit;
        d["fragmentation"] = s.fragmentation();
        return d;
      },
      "device"_a = "cpu",
      "Bytes in use by tensors, taken from the device, and the most in use so far.");
  m.def(
      "reset_peak",
      [](nb::handle device) { without_gil([d = parse_device(device)] { reset_peak(d); }); },
      "device"_a = "cpu", "Starts both peaks again from what is in use now.");
  m.def(
      "empty_cache",
      [](nb::handle device) { without_gil([d = parse_device(device)] { empty_cache(d); }); },
      "device"_a = "cpu", "Gives cached blocks back to the system.");
  m.def(
      "set_memory_limit",
      [](size_t bytes, nb::handle device) {
        without_gil([&, d = parse_device(device)] { set_memory_limit(d, bytes); });
      },
      "bytes"_a, "device"_a = "cpu",
      "The most bytes this process may take from a device; 0 lifts the limit.");
  m.def("_fail_allocation", fail_allocation, "n"_a);
}

}  // namespace

void bind_settings(nb::module_& m) {
  m.def("set_deterministic", set_deterministic, "on"_a, "Same inputs, same machine, same bits.");
  m.def("deterministic", deterministic, "Whether it is on: see set_deterministic.");
  m.def("set_allow_tf32", set_allow_tf32, "on"_a,
        "Lets float32 products on CUDA use TF32 tensor cores.");
  m.def("allow_tf32", allow_tf32, "Whether it is on: see set_allow_tf32. Off at first.");
  m.def("set_autotune", set_autotune, "on"_a,
        "Times the kernels that can compute a convolution or a matrix product on CUDA once, and "
        "takes the fastest.");
  m.def("autotune", autotune, "Whether it is on: see set_autotune.");
  m.def("set_conv_workspace_limit", set_conv_workspace_limit, "bytes"_a,
        "The most scratch memory that a convolution's algorithm on CUDA may ask for.");
  m.def("conv_workspace_limit", conv_workspace_limit,
        "The limit in bytes: see set_conv_workspace_limit. 1 GiB at first.");
  m.def("set_num_threads", set_num_threads, "threads"_a, "Threads used by CPU kernels.");
  for (const char* name : {"num_threads", "get_num_threads"})
    m.def(name, num_threads, "Threads used by CPU kernels; at first OpenMP's choice.");
  m.def("set_verbose_dispatch", set_verbose_dispatch, "on"_a,
        "Prints each kernel candidate, refusal and choice.");
  m.def("set_verbose_compile", set_verbose_compile, "on"_a,
        "Prints what compiled functions capture and why, what passes change and what is planned.");
  m.def("set_pass", set_pass, "name"_a, "on"_a,
        "Turns a pass over captured graphs off, or on again.");
  m.def("verbose_dispatch", verbose_dispatch, "Whether it is on: see set_verbose_dispatch.");
  m.def("verbose_compile", verbose_compile, "Whether it is on: see set_verbose_compile.");
  m.def("forced_kernel", forced_kernel, "op"_a, "The forced kernel's name; empty when none is.");
  m.def("pass_is_on", pass_is_on, "name"_a,
        "Whether a pass over captured graphs is on: see set_pass.");
  m.def(
      "passes",
      [] {
        std::vector<std::string> names;
        for (const Pass& pass : passes()) names.emplace_back(pass.name);
        return names;
      },
      "The names of the passes over captured graphs, in their order.");
  m.def("force_kernel", force_kernel, "op"_a, "kernel"_a,
        "Forces the kernel of an operator; an empty name lifts it.");
  m.def("devices", devices, ReleaseGil(), "The devices that can be used here.");
  bind_memory(m);
}

}  // namespace mica::python
