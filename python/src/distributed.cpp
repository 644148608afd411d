// mica.distributed: processes that compute together.
#include "mica/distributed.h"

#include <nanobind/stl/map.h>

#include "mica/op/function.h"
#include "python/src/bindings.h"
#include "python/src/custom.h"
#include "python/src/module_handle.h"

namespace mica {
Functions collective_functions();
}

namespace mica::python {
namespace {

using distributed::DataParallel;
using distributed::DataParallelOptions;
using distributed::Sharding;

Sharding parse_sharding(const std::string& word) {
  if (word == "none") return Sharding::none;
  if (word == "states") return Sharding::states;
  check(word == "gradients",
        "DataParallel: sharding must be \"none\", \"states\" or \"gradients\", got \"{}\"", word);
  return Sharding::gradients;
}

void bind_data_parallel(nb::module_& m) {
  nb::class_<DataParallel>(m, "_DataParallel")
      .def(
          "__init__",
          [](DataParallel* self, nb::handle module, int64_t group, int64_t bucket_bytes, bool bf16,
             bool allow_unused, const std::string& sharding, bool broadcast_buffers) {
            const nn::Module handle = module_from(module);
            const DataParallelOptions options{.group = group,
                                              .bucket_bytes = bucket_bytes,
                                              .bf16 = bf16,
                                              .allow_unused = allow_unused,
                                              .sharding = parse_sharding(sharding),
                                              .broadcast_buffers = broadcast_buffers};
            without_gil([&] { new (self) DataParallel(handle, options); });
          },
          "module"_a, "group"_a, "bucket_bytes"_a, "bf16"_a, "allow_unused"_a, "sharding"_a,
          "broadcast_buffers"_a)
      .def("parameters", &DataParallel::parameters)
      .def("bucket_sizes", &DataParallel::bucket_sizes)
      .def(
          "step",
          [](const DataParallel& self, optim::Optimizer& optimizer) {
            without_gil([&] { self.step(optimizer); });
          },
          "optimizer"_a)
      .def("zero_grad", &DataParallel::zero_grad)
      .def("clip_grad_norm_", &DataParallel::clip_grad_norm_, "max_norm"_a, ReleaseGil())
      .def("before_forward", &DataParallel::before_forward, ReleaseGil())
      .def("broadcast_buffers", &DataParallel::broadcast_buffers, ReleaseGil())
      .def("take_parameters", &DataParallel::take_parameters, ReleaseGil())
      .def("set_sync", &DataParallel::set_sync, "on"_a);
}

}  // namespace

void bind_distributed(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "distributed");
  static const Functions collectives = collective_functions();
  for (const Function& f : collectives) nb::setattr(scope, f.name, function_object(f));
  scope.def(
      "init",
      [](const std::string& backend, double timeout) {
        distributed::init({.backend = backend, .timeout_seconds = timeout});
      },
      "backend"_a = "", "timeout"_a = 0.0, ReleaseGil());
  scope.def("is_initialized", &distributed::is_initialized,
            "Whether init() was called in this process.");
  scope.def("rank", &distributed::rank, "Of this process among all; 0 before init().");
  scope.def("world_size", &distributed::world_size, "How many processes there are.");
  scope.def("local_rank", &distributed::local_rank,
            "Of this process among those on its machine: the number of its GPU.");
  scope.def("backend", &distributed::backend, "\"mpi\", \"nccl\", or \"self\" of a process alone.");
  scope.def("new_group", &distributed::new_group, "ranks"_a, ReleaseGil(),
            "A group of some of the processes, which every process makes; its number is what "
            "collectives take.");
  scope.def("group_rank", &distributed::group_rank, "group"_a,
            "This process's rank in a group; -1 where it is no member.");
  scope.def("group_size", &distributed::group_size, "group"_a, "How many members a group has.");
  scope.def(
      "barrier",
      [](int64_t group, nb::handle device) {
        const Device d = parse_options(nb::none(), device).device;
        without_gil([&] { distributed::barrier(group, d); });
      },
      "group"_a = 0, "device"_a = nb::none(), "Returns when all ranks of a group have called it.");
  scope.def("report_failure", &distributed::report_failure, "error"_a, ReleaseGil(),
            "Tells the others that this process ends because of an error, which they then raise.");
  scope.def("failure", &distributed::failure,
            "What went wrong with any of the processes, as far as this one has heard; empty: "
            "nothing.");
  scope.def("shutdown", &distributed::shutdown, ReleaseGil(),
            "Says good-bye and ends MPI; at the end of a program this is done by itself.");
  bind_data_parallel(scope);
  scope.def(
      "convert_sync_batch_norm",
      [](nb::handle module, int64_t group) {
        return module_to_python(distributed::convert_sync_batch_norm(module_from(module), group));
      },
      "module"_a, "group"_a = 0,
      "The module with every BatchNorm in it replaced by one that takes the statistics of all "
      "ranks' batches.");
  scope.def("_save_checkpoint", &distributed::save_checkpoint, "directory"_a, "parallel"_a,
            "optimizer"_a, "texts"_a, ReleaseGil());
  scope.def("_load_checkpoint", &distributed::load_checkpoint, "directory"_a, "parallel"_a,
            "optimizer"_a, ReleaseGil());
}

}  // namespace mica::python
