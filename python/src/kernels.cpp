// mica.cuda: kernels from source, one-line elementwise kernels and reductions.
#include "mica/core/inline_vector.h"
#include "mica/custom/elementwise.h"
#include "mica/custom/kernel.h"
#include "mica/runtime/stream.h"
#include "python/src/arguments.h"
#include "python/src/custom.h"

namespace mica::python {
namespace {

using cuda::Elementwise;
using cuda::Grid;
using cuda::Kernel;
using cuda::Reduction;

uint32_t size_from(nb::handle value, const char* what) {
  Argument argument;
  read_argument(value, argument);
  const Number* n = argument.get<Number>();
  if (!n || n->is_floating() || !n->fits_in<uint32_t>())
    raise_type_error("a kernel's {} must be an integer or up to three of them, got {}", what,
                     nb::repr(value).c_str());
  return n->as<uint32_t>();
}

/// An integer, or up to three.
GridSize grid_size_from(nb::handle value, const char* what) {
  if (!PyTuple_Check(value.ptr()) && !PyList_Check(value.ptr())) return {size_from(value, what)};
  const auto items = nb::cast<nb::tuple>(nb::steal(PySequence_Tuple(value.ptr())));
  const size_t n = nb::len(items);
  if (n < 1 || n > 3)
    raise_type_error("a kernel's {} must be an integer or up to three of them, got {}", what,
                     nb::repr(value).c_str());
  GridSize size;
  uint32_t* const places[] = {&size.x, &size.y, &size.z};
  for (size_t i = 0; i < n; ++i) *places[i] = size_from(items[i], what);
  return size;
}

using KernelArguments = InlineVector<KernelArgument, 12>;

/// Tensors, numbers, and None for a null pointer.
KernelArguments arguments_from(const nb::args& args, const std::string& name) {
  KernelArguments all;
  for (const nb::handle a : args) {
    if (a.is_none()) {
      all.emplace(Tensor());
      continue;
    }
    if (const Tensor* t = tensor_or_null(a)) {
      all.emplace(*t);
      continue;
    }
    const Argument argument = to_argument(a);
    if (const Number* n = argument.get<Number>()) {
      all.emplace(*n);
    } else {
      raise_type_error("{}: argument {} must be a tensor or a number, got {}", name, all.size(),
                       class_name(a));
    }
  }
  return all;
}

/// What k[grid, block] is: to be called with the arguments.
struct Launcher {
  Kernel kernel;
  Grid grid;
  std::optional<Stream> stream;

  void call(const nb::args& args) const {
    const KernelArguments all = arguments_from(args, kernel.name());
    without_gil([&] {
      std::optional<StreamGuard> guard;
      if (stream) guard.emplace(*stream);
      kernel.launch(grid, all.span());
    });
  }
};

Launcher launcher(const Kernel& kernel, nb::handle key) {
  if (!PyTuple_Check(key.ptr()) || nb::len(key) < 2 || nb::len(key) > 4)
    raise_type_error(
        "{}: expected kernel[grid, block], with bytes of shared memory and a stream "
        "after them if wanted, got {}",
        kernel.name(), nb::repr(key).c_str());
  const auto items = nb::cast<nb::tuple>(key);
  Launcher launch{
      kernel, {grid_size_from(items[0], "grid"), grid_size_from(items[1], "block")}, {}};
  if (items.size() > 2) launch.grid.shared_bytes = size_from(items[2], "shared memory");
  if (items.size() > 3 && !items[3].is_none()) launch.stream = nb::cast<Stream>(items[3]);
  return launch;
}

template <class K>
std::vector<std::string> types_of(const K& kernel) {
  std::vector<std::string> types;
  for (const KernelParameter& p : kernel.parameters()) types.push_back(p.type);
  return types;
}

template <class K>
std::string describe(const K& kernel) {
  std::string types;
  for (const std::string& type : types_of(kernel)) types += (types.empty() ? "" : ", ") + type;
  return fmt::format("<kernel {}({})>", kernel.name(), types);
}

std::optional<DType> maybe_dtype(nb::handle dtype) {
  return dtype.is_none() ? std::nullopt : std::optional(parse_dtype(dtype));
}

void bind_kernel(nb::module_& m) {
  nb::class_<Launcher>(m, "KernelLauncher", "A kernel with its grid: kernel[grid, block].")
      .def("__call__", &Launcher::call, "args"_a,
           "Launches the kernel on tensors and numbers, one for each of its parameters.");
  nb::class_<Kernel>(m, "Kernel", "A CUDA kernel compiled from source: see kernel().")
      .def_prop_ro("name", &Kernel::name, "Its name in the source.")
      .def_prop_ro("parameters", types_of<Kernel>, "The types of its parameters.")
      .def("__getitem__", launcher, "grid"_a,
           "kernel[grid, block] or kernel[grid, block, shared_bytes, stream]: what launches it.")
      .def("__repr__", describe<Kernel>);
  m.def(
      "kernel",
      [](const std::string& source, const std::string& name, std::vector<std::string> options,
         bool strided) {
        return without_gil([&] {
          return Kernel(source, name, {.options = std::move(options), .strided = strided});
        });
      },
      "source"_a, "name"_a, nb::kw_only(), "options"_a = std::vector<std::string>(),
      "strided"_a = false,
      "A kernel of CUDA C++ source, compiled by NVRTC and kept on disk. The name may have template "
      "arguments, \"scale<float>\". kernel[grid, block](x, y, n) launches it on the current "
      "stream; "
      "pointers to const are read, others are written to. options go to NVRTC. Tensors must be "
      "dense in row-major order unless strided is true.");
}

void bind_one_liners(nb::module_& m) {
  nb::class_<Elementwise>(m, "Elementwise", "A function of elements: see elementwise().")
      .def(
          "__call__",
          [](const Elementwise& self, const nb::args& args) {
            const auto all = arguments_from(args, "elementwise");
            const Tensors results = without_gil([&] { return self.apply(all.span()); });
            return results.size() == 1 ? nb::cast(results[0]) : nb::object(to_tuple(results));
          },
          "args"_a, "One result, or a tuple of several.")
      .def(
          "source",
          [](const Elementwise& self, const nb::args& args) {
            return self.source(arguments_from(args, "elementwise").span());
          },
          "args"_a, "The CUDA source that is compiled for such arguments.");
  m.def(
      "elementwise",
      [](const std::string& body, const std::string& inputs, const std::string& outputs,
         nb::handle dtype, const std::string& name) {
        return Elementwise(body, inputs,
                           {.outputs = outputs, .dtype = maybe_dtype(dtype), .name = name});
      },
      "body"_a, "inputs"_a, nb::kw_only(), "outputs"_a = "", "dtype"_a = nb::none(),
      "name"_a = "elementwise",
      "A kernel of statements about elements, elementwise(\"y = a * x + b\", \"a, x, b\"). It is "
      "called with tensors on a CUDA device, which are broadcast, or numbers. outputs names the "
      "results where they are more than what the last statement assigns to; their dtype is the "
      "inputs' promoted unless dtype says another.");
  nb::class_<Reduction>(m, "Reduction", "A reduction: see reduction().")
      .def(
          "__call__",
          [](const Reduction& self, const nb::args& args, std::optional<Dims> dim, bool keepdim) {
            const Tensors inputs = nb::cast<Tensors>(nb::handle(args));
            return without_gil([&] { return self(inputs, dim, keepdim); });
          },
          "args"_a, "dim"_a = nb::none(), "keepdim"_a = false,
          "The inputs reduced over some axes, or over all.")
      .def(
          "source",
          [](const Reduction& self, const nb::args& dtypes) {
            std::vector<DType> all;
            for (const nb::handle d : dtypes) all.push_back(parse_dtype(d));
            return self.source(all);
          },
          "dtypes"_a, "The CUDA source that is compiled for inputs of these dtypes.");
  m.def(
      "reduction",
      [](const std::string& map, const std::string& combine, const std::string& identity,
         const std::string& post, const std::string& inputs, nb::handle dtype,
         const std::string& name) {
        return Reduction(
            map, combine, identity,
            {.inputs = inputs, .post = post, .dtype = maybe_dtype(dtype), .name = name});
      },
      "map"_a, "combine"_a, "identity"_a, nb::kw_only(), "post"_a = "a", "inputs"_a = "x",
      "dtype"_a = nb::none(), "name"_a = "reduction",
      "A kernel that reduces axes, reduction(\"x * x\", \"a + b\", \"0\", post=\"sqrt(a)\"): map "
      "is "
      "of the inputs' elements, combine of two such values a and b, identity its neutral value, "
      "post of the combined value a.");
}

/// mica.cpu: kernels from C source.
void bind_cpu_kernel(nb::module_& m) {
  nb::class_<cpu::Kernel>(m, "Kernel", "A function of C source: see kernel().")
      .def_prop_ro("name", &cpu::Kernel::name, "Its name in the source.")
      .def_prop_ro(
          "parameters", [](const cpu::Kernel& k) { return types_of(k); },
          "The types of its parameters.")
      .def(
          "__call__",
          [](const cpu::Kernel& k, const nb::args& args) {
            const KernelArguments all = arguments_from(args, k.name());
            without_gil([&] { k.launch(all.span()); });
          },
          "args"_a, "Calls it with tensors and numbers, one for each of its parameters.")
      .def("__repr__", [](const cpu::Kernel& k) { return describe(k); });
  m.def(
      "kernel",
      [](const std::string& source, const std::string& name, std::vector<std::string> options,
         bool strided) {
        return without_gil([&] {
          return cpu::Kernel(source, name, {.options = std::move(options), .strided = strided});
        });
      },
      "source"_a, "name"_a, nb::kw_only(), "options"_a = std::vector<std::string>(),
      "strided"_a = false,
      "A function of C or C++ source for tensors on the CPU, compiled by the system's compiler "
      "($CXX, else c++, g++ or clang++) and kept on disk; options go to it. Pointers to const are "
      "read, others are written to.");
}

}  // namespace

void bind_kernels(nb::module_& m) {
  auto cuda = nb::cast<nb::module_>(m.attr("cuda"));
  bind_kernel(cuda);
  bind_one_liners(cuda);
  nb::module_ cpu = add_submodule(m, "cpu");
  bind_cpu_kernel(cpu);
  bind_user_ops(m);
}

}  // namespace mica::python
