#include "mica/ops/complex/complex.h"

#include <cstring>
#include <numbers>

#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/complex/cpu.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/calls.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

using namespace elementwise;
using namespace complex_functor;

void infer_part(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(in[0].shape, real_dtype(in[0].dtype));
}

void infer_same(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(in[0].shape, in[0].dtype);
}

void infer_complex(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  for (const TensorSpec& s : in)
    check<DTypeError>(s.dtype == in[0].dtype && (s.dtype == DType::f32 || s.dtype == DType::f64),
                      "complex: both parts must be f32 or f64, got {} and {}", in[0].dtype,
                      in[1].dtype);
  out.add(broadcast_shapes(in[0].shape, in[1].shape, "complex"), complex_dtype(in[0].dtype));
}

template <class C>
void make(const LoopState<3>& state, const Call& c) {
  run_function<2>(complex_function<Make, 2, C>(), state.loop, c);
}
void run_make(const NoParams&, const LoopState<3>& state, const Call& c) {
  c.in[0].dtype() == DType::f64 ? make<double>(state, c) : make<float>(state, c);
}

/// A function from complex to real numbers.
template <class F, auto gradient>
OpDef part(const char* name, Op<NoParams>::Saves saves) {
  return Op<NoParams>(name)
      .dtypes(kComplexDTypes)
      .template infer<infer_part>()
      .template vjp<only<gradient>>(saves)
      .elementwise(1)
      .complex(complex_kernel<F>())
      .build();
}

Tensor times_i(const Tensor& x) { return complex(zeros_like(x), x); }
Tensor grad_real(const VjpArgs& a) { return complex(a.grad[0], zeros_like(a.grad[0])); }
Tensor grad_imag(const VjpArgs& a) { return times_i(a.grad[0]); }
/// The direction of x; where x is 0 there is none.
Tensor grad_abs(const VjpArgs& a) { return mul(a.grad[0], sign(a.in[0])); }
/// i x / |x|^2.
Tensor grad_angle(const VjpArgs& a) {
  const Tensor& x = a.in[0];
  const Tensor size = abs(x);
  const Tensor some = ne(size, 0);
  const Tensor scaled = where(some, div(a.grad[0], where(some, square(size), 1.0)), 0.0);
  return mul(x, times_i(scaled));
}
Tensor grad_conj(const VjpArgs& a) { return conj(a.grad[0]); }

Tensors vjp_complex(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return real(a.grad[0]); }),
          for_input(a, 1, [&] { return imag(a.grad[0]); })};
}

Support dense(const NoParams&, const Specs&) { return Support::yes().with_contiguous({0}); }
void run_view(const NoParams&, const Call& c) {
  const auto bytes = static_cast<size_t>(c.in[0].numel()) * size_of(c.in[0].dtype());
  if (bytes > 0) std::memcpy(c.out[0].data, c.in[0].data, bytes);
}

void infer_as_real(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  Shape shape = in[0].shape;
  check<ShapeError>(shape.rank() < Dims::kMaxRank, "view_as_real: {} has no room for another axis",
                    shape);
  shape.push_back(2);
  out.add(shape, real_dtype(in[0].dtype));
  out[0].strides = contiguous_strides(shape);
}
Tensor grad_as_real(const VjpArgs& a) { return view_as_complex(a.grad[0]); }

void infer_as_complex(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  Shape shape;
  for (int i = 0; i + 1 < in[0].rank(); ++i) shape.push_back(in[0].shape[i]);
  check<ShapeError>(in[0].rank() > 0 && in[0].shape.back() == 2,
                    "view_as_complex: the last axis must have two elements, got {}", in[0].shape);
  out.add(shape, complex_dtype(in[0].dtype));
  out[0].strides = contiguous_strides(shape);
}
Tensor grad_as_complex(const VjpArgs& a) { return view_as_real(a.grad[0]); }

template <auto infer, auto gradient>
OpDef seen_as(const char* name, DTypeSet dtypes) {
  return Op<NoParams>(name)
      .inputs({"x"})
      .moves()
      .dtypes(dtypes)
      .template infer<infer>()
      .template vjp<only<gradient>>({})
      .cpu({kernel<dense, run_view>("bytes")})
      .build();
}

/// Half types have no complex ones.
Tensor as_part(const Tensor& x) {
  check<DTypeError>(!is_complex(x.dtype()), "complex: expected real parts, got {}", x.dtype());
  return x.dtype() == DType::f64 ? x : cast(x, DType::f32);
}

}  // namespace

const OpDef& complex_op() {
  static OpDef def =
      Op<NoParams>("complex")
          .infer<infer_complex>()
          .vjp<vjp_complex>({})
          .elementwise(2)
          .cpu({kernel<supports_all<NoParams>, prepare<2, Make>, run_make>("strided")})
          .moves()
          .dtypes(kFloatDTypes)
          .build();
  return def;
}
const OpDef& real_op() {
  static OpDef def = part<Real, grad_real>("real", {});
  return def;
}
const OpDef& imag_op() {
  static OpDef def = part<Imag, grad_imag>("imag", {});
  return def;
}
const OpDef& complex_abs_op() {
  static OpDef def = part<Abs, grad_abs>("complex_abs", {.in = {0}});
  return def;
}
const OpDef& angle_op() {
  static OpDef def = part<Angle, grad_angle>("angle", {.in = {0}});
  return def;
}
const OpDef& conj_op() {
  static OpDef def = Op<NoParams>("conj")
                         .dtypes(kComplexDTypes)
                         .infer<infer_same>()
                         .vjp<only<grad_conj>>({})
                         .algebra({.involution = true})
                         .elementwise(1)
                         .complex(complex_kernel<Conj>())
                         .build();
  return def;
}
const OpDef& view_as_real_op() {
  static OpDef def = seen_as<infer_as_real, grad_as_real>("view_as_real", kComplexDTypes);
  return def;
}
const OpDef& view_as_complex_op() {
  static OpDef def = seen_as<infer_as_complex, grad_as_complex>(
      "view_as_complex", DTypeSet({DType::f32, DType::f64}, "f32 or f64"));
  return def;
}

Tensor complex(const Tensor& real, const Tensor& imag) {
  const Tensor a = as_part(real);
  const Tensor b = as_part(imag);
  const DType t = promote(a.dtype(), b.dtype());
  return dispatch(complex_op(), NoParams{}, {cast(a, t), cast(b, t)})[0];
}
Tensor polar(const Tensor& size, const Tensor& angle) {
  return complex(mul(size, cos(angle)), mul(size, sin(angle)));
}
Tensor real(const Tensor& x) {
  return is_complex(x.dtype()) ? dispatch(real_op(), NoParams{}, {x})[0] : x;
}
Tensor imag(const Tensor& x) {
  return is_complex(x.dtype()) ? dispatch(imag_op(), NoParams{}, {x})[0] : zeros_like(x);
}
Tensor conj(const Tensor& x) {
  return is_complex(x.dtype()) ? dispatch(conj_op(), NoParams{}, {x})[0] : x;
}
Tensor angle(const Tensor& x) {
  if (is_complex(x.dtype())) return dispatch(angle_op(), NoParams{}, {x})[0];
  const Tensor y = as_float(x);
  const Tensor flat = where(signbit(y), full({}, std::numbers::pi, {y.dtype(), y.device()}), 0.0);
  return where(isnan(y), y, flat);
}
Tensor complex_abs(const Tensor& x) { return dispatch(complex_abs_op(), NoParams{}, {x})[0]; }
Tensor adjoint(const Tensor& x) {
  check<ShapeError>(x.rank() >= 2, "adjoint: expected at least two axes, got {}", x.shape());
  return conj(transpose(x, -2, -1));
}
Tensor isreal(const Tensor& x) {
  if (is_complex(x.dtype())) return eq(imag(x), 0);
  return full(x.shape(), true, {DType::boolean, x.device()});
}
Tensor view_as_real(const Tensor& x) { return dispatch(view_as_real_op(), NoParams{}, {x})[0]; }
Tensor view_as_complex(const Tensor& x) {
  return dispatch(view_as_complex_op(), NoParams{}, {x})[0];
}

Functions complex_functions() {
  const auto belongs_to = [](const char* op, mica::Function f) {
    f.op = op;
    return f;
  };
  const auto of_two = [](const char* name, Tensor (*f)(const Tensor&, const Tensor&),
                         const char* doc, const char* first, const char* second) {
    return mica::Function{
        .name = name, .doc = doc, .signatures = {{f, {first, second}}}, .offer = kModule};
  };
  return {
      of_two("complex", complex,
             "real + imag * i of two real tensors, which broadcast: complex128 of float64, else "
             "complex64.",
             "real", "imag"),
      belongs_to("complex",
                 of_two("polar", polar,
                        "The complex numbers with these absolute values and angles, which "
                        "broadcast: complex128 of float64, else complex64.",
                        "abs", "angle")),
      unary("real", real, "The real part of each element; a real tensor is given back.", kModule),
      unary("imag", imag, "The imaginary part of each element; of real numbers 0.", kModule),
      unary("conj", conj,
            "The complex conjugate of each element; real numbers are given back as they are."),
      unary("angle", angle,
            "The angle of each element from the positive real axis, in radians: of a real number 0 "
            "or pi."),
      belongs_to("conj", unary("adjoint", adjoint,
                               "The conjugate of the last two axes exchanged, which of real "
                               "numbers is the transpose.")),
      belongs_to("imag", unary("isreal", isreal,
                               "Whether the imaginary part of each element is 0, as it is of every "
                               "real number.")),
      unary("view_as_real", view_as_real,
            "Complex numbers (...) as pairs (..., 2) of real ones, in memory of their own.",
            kModule),
      unary("view_as_complex", view_as_complex,
            "Pairs (..., 2) of float32 or float64 as complex numbers (...), in memory of their "
            "own.",
            kModule),
  };
}

}  // namespace mica
