// Sparse matrices.
#include "mica/ops/sparse/sparse.h"

#include <nanobind/operators.h>

#include "mica/op/fields.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/sparse/parts.h"
#include "mica/ops/view/view.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

SparseLayout parse_layout(const std::string& word) {
  for (const SparseLayout layout : {SparseLayout::coo, SparseLayout::csr, SparseLayout::csc})
    if (word == print_field(layout)) return layout;
  fail<Unsupported>("layout must be 'coo', 'csr' or 'csc', got '{}'", word);
}

/// A tensor, or whatever one can be made of.
Tensor as_tensor(nb::handle value, nb::handle dtype = nb::none()) {
  const Tensor* t = tensor_or_null(value);
  if (!t) return tensor_from(value, dtype, nb::none());
  return dtype.is_none() ? *t : t->to(parse_dtype(dtype));
}

/// What `make` gives, with PyTorch's last arguments of sparse_*_tensor.
template <class F>
SparseTensor made(nb::handle device, bool requires_grad, F&& make) {
  const auto there = device.is_none() ? std::nullopt : std::optional(parse_device(device));
  return without_gil([&] {
    SparseTensor a = make();
    if (there) a = a.to(*there);
    if (requires_grad) a.set_requires_grad();
    return a;
  });
}

using Compressed = SparseTensor (*)(const Tensor&, const Tensor&, const Tensor&, const Shape&);

void def_compressed(nb::module_& m, const char* name, Compressed make, const char* first,
                    const char* second, const char* doc) {
  m.def(
      name,
      [make](nb::handle compressed, nb::handle plain, nb::handle values, const Dims& size,
             nb::handle dtype, nb::handle device, bool requires_grad) {
        const Tensor parts[] = {as_tensor(compressed), as_tensor(plain), as_tensor(values, dtype)};
        return made(device, requires_grad,
                    [&] { return make(parts[0], parts[1], parts[2], size); });
      },
      nb::arg(first), nb::arg(second), "values"_a, "size"_a, nb::kw_only(), "dtype"_a = nb::none(),
      "device"_a = nb::none(), "requires_grad"_a = false, doc);
}

/// The parts as SciPy's constructors take them.
nb::tuple scipy_parts(const SparseTensor& a) {
  const auto array = [](const Tensor& t) { return nb::cast(t).attr("numpy")(); };
  const nb::object values = array(a.values().detach());
  if (a.layout() == SparseLayout::coo)
    return nb::make_tuple(
        values, nb::make_tuple(array(select(a.indices(), 0, 0)), array(select(a.indices(), 0, 1))));
  const bool csr = a.layout() == SparseLayout::csr;
  return nb::make_tuple(values, array(csr ? a.col_indices() : a.row_indices()),
                        array(csr ? a.crow_indices() : a.ccol_indices()));
}

/// A matrix of SciPy, by its attributes, on the same memory.
SparseTensor from_scipy(nb::handle matrix) {
  if (!nb::hasattr(matrix, "format") || !nb::hasattr(matrix, "data") ||
      !nb::hasattr(matrix, "shape"))
    raise_type_error("from_scipy: expected a sparse matrix of SciPy, got {}", class_name(matrix));
  const auto shared = [&](const char* attribute) {
    return nb::cast<Tensor>(
        nb::module_::import_("mica").attr("from_numpy")(matrix.attr(attribute)));
  };
  const auto format = nb::cast<std::string>(matrix.attr("format"));
  const Shape shape = nb::cast<Dims>(matrix.attr("shape"));
  const Tensor data = shared("data");
  if (format == "coo") {
    const Tensor row = shared("row");
    const Tensor col = shared("col");
    return without_gil([&] { return sparse_coo_tensor(stack({row, col}), data, shape); });
  }
  check<Unsupported>(format == "csr" || format == "csc",
                     "from_scipy: expected csr, csc or coo, got '{}'", format);
  const Tensor indptr = shared("indptr");
  const Tensor indices = shared("indices");
  const Compressed make = format == "csr" ? sparse_csr_tensor : sparse_csc_tensor;
  return without_gil([&] { return make(indptr, indices, data, shape); });
}

/// For copies and pickles.
nb::tuple reduced(const SparseTensor& a) {
  const SparseParts p = SparseParts::of(a);
  const nb::object make = nb::module_::import_("mica.sparse").attr("_made");
  return nb::make_tuple(make, nb::make_tuple(print_field(p.layout), or_none(p.compressed), p.plain,
                                             p.values, nb::make_tuple(a.size(0), a.size(1))));
}

void bind_parts(nb::class_<SparseTensor>& c) {
  c.def_prop_ro(
       "layout", [](const SparseTensor& a) { return print_field(a.layout()); },
       "'coo', 'csr' or 'csc'.")
      .def_prop_ro(
          "shape", [](const SparseTensor& a) { return nb::make_tuple(a.size(0), a.size(1)); },
          "(rows, columns).")
      .def_prop_ro("ndim", &SparseTensor::rank, "2.")
      .def_prop_ro("dtype", &SparseTensor::dtype, "Of the values.")
      .def_prop_ro("device", &SparseTensor::device, "Where the parts are.")
      .def_prop_ro("nnz", &SparseTensor::nnz, "How many entries are kept.")
      .def("_nnz", &SparseTensor::nnz, "How many entries are kept.")
      .def(
          "size",
          [](const SparseTensor& a, std::optional<int> dim) -> nb::object {
            if (dim) return nb::cast(a.size(*dim));
            return nb::make_tuple(a.size(0), a.size(1));
          },
          "dim"_a = nb::none(), "The shape, or one size of it.")
      .def("values", &SparseTensor::values, "The values (nnz), which gradients belong to.")
      .def("indices", &SparseTensor::indices, "Row and column of each entry, (2, nnz); of coo.")
      .def("crow_indices", &SparseTensor::crow_indices,
           "Where each row's entries begin, (rows + 1); of csr.")
      .def("col_indices", &SparseTensor::col_indices, "The column of each entry, (nnz); of csr.")
      .def("ccol_indices", &SparseTensor::ccol_indices,
           "Where each column's entries begin, (columns + 1); of csc.")
      .def("row_indices", &SparseTensor::row_indices, "The row of each entry, (nnz); of csc.")
      .def("with_values", &SparseTensor::with_values, "values"_a, ReleaseGil(),
           "The same places with other values.")
      .def("is_coalesced", &SparseTensor::is_coalesced,
           "Whether entries are known to be in order, none of them twice.")
      .def("coalesce", &SparseTensor::coalesce, ReleaseGil(),
           "With entries in order, equal ones added up.")
      .def("__reduce__", &reduced)
      .def("numpy", &scipy_parts, nb::sig("def numpy(self) -> tuple[Any, ...]"),
           "The parts on the same memory as SciPy's constructors take them: "
           "scipy.sparse.csr_array(a.numpy(), shape=a.shape), coo_array((values, (row, col))).");
}

void bind_conversions(nb::class_<SparseTensor>& c) {
  c.def("to_dense", &SparseTensor::to_dense, ReleaseGil(), "As a tensor.")
      .def("to_sparse", &SparseTensor::to_sparse, ReleaseGil(), "As coo.")
      .def("to_sparse_csr", &SparseTensor::to_sparse_csr, ReleaseGil(), "As csr.")
      .def("to_sparse_csc", &SparseTensor::to_sparse_csc, ReleaseGil(), "As csc.")
      .def(
          "to_layout",
          [](const SparseTensor& a, const std::string& layout) {
            const SparseLayout wanted = parse_layout(layout);
            return without_gil([&] { return a.to_layout(wanted); });
          },
          "layout"_a, "As 'coo', 'csr' or 'csc'.")
      .def("to", nb::overload_cast<DType>(&SparseTensor::to, nb::const_), "dtype"_a, ReleaseGil(),
           "With values of another dtype.")
      .def(
          "to",
          [](const SparseTensor& a, nb::handle device) {
            const Device there = parse_device(device);
            return without_gil([&] { return a.to(there); });
          },
          "device"_a, "On another device.")
      .def("t", &SparseTensor::t, ReleaseGil(),
           "The transpose on the same memory: of csr it is csc, and the other way round.")
      .def_prop_ro("T", &SparseTensor::t, "The transpose.")
      .def("detach", &SparseTensor::detach, "Without the history of the values.")
      .def_prop_ro("requires_grad", &SparseTensor::requires_grad, "Of the values.")
      .def(
          "requires_grad_",
          [](const SparseTensor& a, bool requires_grad) {
            a.set_requires_grad(requires_grad);
            return a;
          },
          "requires_grad"_a = true, "Sets it for the values.")
      .def_prop_ro(
          "grad",
          [](const SparseTensor& a) {
            const SparseTensor g = a.grad();
            return g.defined() ? std::optional(g) : std::nullopt;
          },
          "The gradient of the values, at the same places.")
      .def("sum", &SparseTensor::sum, "dim"_a = nb::none(), ReleaseGil(),
           "Of all entries, or along an axis: a dense tensor.");
}

void bind_operators(nb::class_<SparseTensor>& c) {
  using A = const SparseTensor&;
  using D = const Tensor&;
  c.def(
       "__add__", [](A a, A b) { return a + b; }, nb::is_operator(), ReleaseGil())
      .def(
          "__add__", [](A a, D b) { return a + b; }, nb::is_operator(), ReleaseGil())
      .def(
          "__radd__", [](A a, D b) { return a + b; }, nb::is_operator(), ReleaseGil())
      .def(
          "__sub__", [](A a, A b) { return a - b; }, nb::is_operator(), ReleaseGil())
      .def(
          "__neg__", [](A a) { return -a; }, ReleaseGil())
      .def(
          "__mul__", [](A a, A b) { return a * b; }, nb::is_operator(), ReleaseGil())
      .def(
          "__mul__", [](A a, D b) { return a * b; }, nb::is_operator(), ReleaseGil())
      .def(
          "__rmul__", [](A a, D b) { return a * b; }, nb::is_operator(), ReleaseGil(),
          nb::sig("def __rmul__(self, arg: Tensor, /) -> Any"))
      .def(
          "__mul__", [](A a, Number b) { return a * b; }, nb::is_operator(), ReleaseGil())
      .def(
          "__rmul__", [](A a, Number b) { return a * b; }, nb::is_operator(), ReleaseGil())
      .def(
          "__truediv__", [](A a, Number b) { return a / b; }, nb::is_operator(), ReleaseGil())
      .def(
          "__matmul__", [](A a, A b) { return sparse::mm(a, b); }, nb::is_operator(), ReleaseGil())
      .def(
          "__matmul__", [](A a, D b) { return sparse::mm(a, b); }, nb::is_operator(), ReleaseGil())
      .def(
          "__rmatmul__", [](A a, D b) { return sparse::mm(b, a); }, nb::is_operator(), ReleaseGil())
      .def("__repr__", [](A a) {
        return fmt::format("SparseTensor(layout='{}', shape=({}, {}), nnz={}, dtype=mica.{})",
                           print_field(a.layout()), a.size(0), a.size(1), a.nnz(),
                           python_name(a.dtype()));
      });
}

void bind_makers(nb::module_& m) {
  m.def(
      "sparse_coo_tensor",
      [](nb::handle indices, nb::handle values, const std::optional<Dims>& size, nb::handle dtype,
         nb::handle device, bool requires_grad) {
        const Tensor parts[] = {as_tensor(indices), as_tensor(values, dtype)};
        return made(device, requires_grad,
                    [&] { return sparse_coo_tensor(parts[0], parts[1], size); });
      },
      "indices"_a, "values"_a, "size"_a = nb::none(), nb::kw_only(), "dtype"_a = nb::none(),
      "device"_a = nb::none(), "requires_grad"_a = false,
      "A sparse matrix of the rows and columns of its entries, indices (2, nnz), and their values "
      "(nnz). Without a size the smallest that has all of them. Entries that come twice are added "
      "up.");
  def_compressed(m, "sparse_csr_tensor", sparse_csr_tensor, "crow_indices", "col_indices",
                 "A sparse matrix by rows: the entries of row i are those from crow_indices[i] to "
                 "crow_indices[i + 1]. Indices are int32 or int64; what is no matrix of this size "
                 "raises IndexError.");
  def_compressed(m, "sparse_csc_tensor", sparse_csc_tensor, "ccol_indices", "row_indices",
                 "A sparse matrix by columns: the entries of column j are those from "
                 "ccol_indices[j] to ccol_indices[j + 1].");
}

void bind_functions(nb::module_& m) {
  using A = const SparseTensor&;
  using D = const Tensor&;
  constexpr const char* kMm =
      "The product of two matrices, at least one of them sparse: dense where one is dense, else "
      "with the layout of the first.";
  m.def("mm", [](A a, D b) { return sparse::mm(a, b); }, "a"_a, "b"_a, ReleaseGil(), kMm);
  m.def("mm", [](D a, A b) { return sparse::mm(a, b); }, "a"_a, "b"_a, ReleaseGil(), kMm);
  m.def("mm", [](A a, A b) { return sparse::mm(a, b); }, "a"_a, "b"_a, ReleaseGil(), kMm);
  m.def("addmm", &sparse::addmm, "input"_a, "mat1"_a, "mat2"_a, nb::kw_only(), "beta"_a = 1.0,
        "alpha"_a = 1.0, ReleaseGil(), "beta * input + alpha * (mat1 @ mat2) with a sparse mat1.");
  m.def("sampled_addmm", &sparse::sampled_addmm, "input"_a, "mat1"_a, "mat2"_a, nb::kw_only(),
        "beta"_a = 1.0, "alpha"_a = 1.0, ReleaseGil(),
        "beta * input + alpha * (mat1 @ mat2), dense matrices, at the entries of input alone, "
        "which is csr or csc.");
  m.def("sum", &sparse::sum, "input"_a, "dim"_a = nb::none(), ReleaseGil(),
        "Of all entries, or along an axis: a dense tensor.");
  m.def("softmax", &sparse::softmax, "input"_a, "dim"_a = -1, ReleaseGil(),
        "Along an axis over the entries that are kept; the others count as minus infinity.");
  m.def("log_softmax", &sparse::log_softmax, "input"_a, "dim"_a = -1, ReleaseGil(),
        "The logarithm of softmax.");
  m.def("from_scipy", &from_scipy, "matrix"_a,
        "A csr, csc or coo matrix of SciPy as a sparse tensor: of csr and csc on the same memory.");
}

}  // namespace

void bind_sparse(nb::module_& m) {
  nb::class_<SparseTensor> c(
      m, "SparseTensor",
      "A matrix of which some entries are kept; the others are zero. It is made of tensors: "
      "values and, by layout, indices (coo), crow_indices and col_indices (csr) or ccol_indices "
      "and row_indices (csc).");
  bind_parts(c);
  bind_conversions(c);
  bind_operators(c);
  bind_makers(m);
  nb::module_ scope = add_submodule(m, "sparse");
  bind_functions(scope);
  nb::borrow<nb::class_<Tensor>>(nb::type<Tensor>())
      .def("to_sparse", &to_sparse, ReleaseGil(),
           "The entries of a matrix that are not zero, as a sparse tensor of layout coo.")
      .def("to_sparse_csr", &to_sparse_csr, ReleaseGil(),
           "The entries of a matrix that are not zero, as a sparse tensor of layout csr.")
      .def("to_sparse_csc", &to_sparse_csc, ReleaseGil(),
           "The entries of a matrix that are not zero, as a sparse tensor of layout csc.");
}

}  // namespace mica::python
