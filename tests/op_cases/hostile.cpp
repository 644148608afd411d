// Arguments that nobody should pass. Whatever they are, a call gives a result or one of the
// library's errors: it does not crash, and throws nothing else.
#include <gtest/gtest.h>

#include <limits>

#include "mica/core/check.h"
#include "mica/op/guarded_run.h"
#include "tests/op_cases/harness.h"

namespace mica::cases {
namespace {

constexpr int64_t kLargest = 4096;  // elements of the samples that are tried

/// An input in place of a good one, and what is wrong with it.
struct Substitute {
  std::string what;
  Tensor tensor;
};

Shape with_axis(const Shape& shape, int axis, int64_t size) {
  Shape other = shape;
  other[axis] = size;
  return other;
}

std::vector<Substitute> substitutes(const Tensor& good) {
  const Shape& shape = good.shape();
  const TensorOptions same{good.dtype(), good.device()};
  std::vector<Substitute> list = {
      {"undefined", {}},
      {"on the null device", empty(shape, {good.dtype(), Device::null()})},
      {"of rank 0", ones({}, same)},
      {"of rank 8", ones({1, 1, 2, 1, 1, 1, 1, 1}, same)},
      {"repeated by strides of 0", expand(ones({}, same), shape)}};
  for (int d = 0; d < kDTypes; ++d)
    if (static_cast<DType>(d) != good.dtype())
      list.push_back({fmt::format("of {}", static_cast<DType>(d)),
                      ones(shape, {static_cast<DType>(d), good.device()})});
  for (int axis = 0; axis < shape.rank(); ++axis) {
    list.push_back(
        {fmt::format("with axis {} empty", axis), ones(with_axis(shape, axis, 0), same)});
    list.push_back({fmt::format("with axis {} longer", axis),
                    ones(with_axis(shape, axis, shape[axis] + 1), same)});
  }
  if (shape.rank() > 0)
    list.push_back(
        {"without its first axis", ones(Shape(std::span(shape.begin() + 1, shape.end())), same)});
  if (shape.rank() < Dims::kMaxRank) {
    Shape longer = shape;
    longer.push_back(2);
    list.push_back({"with one axis more", ones(longer, same)});
  }
  const double far = std::ldexp(1, info_of(good.dtype()).digits - 1);
  std::vector<double> values = {-1, 0, far, -far};
  if (is_floating(good.dtype()))
    values = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
  for (const double v : values)
    if (fits(v, good.dtype()) && good.dtype() != DType::boolean)
      list.push_back({fmt::format("full of {}", v), full(shape, v, same)});
  return list;
}

/// While it lives, keeps the first call of one op in this thread.
class Spy final : public GuardedRun {
 public:
  explicit Spy(const OpDef& op) : op_(&op) {}
  Outputs record(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                 std::span<const TensorSpec> out) override {
    if (&op == op_ && !seen) {
      seen.emplace(params);
      in.assign(inputs.begin(), inputs.end());
    }
    return GuardedRun::record(op, params, inputs, out);
  }

  std::optional<AnyParams> seen;
  Tensors in;

 private:
  const OpDef* op_;
};

/// A call may write to its inputs.
Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const Tensor& t : tensors)
    copies.push_back(t.defined() && t.device().is_cpu() && t.spec().is_contiguous() ? clone(t) : t);
  return copies;
}

/// Calls f, reads all that it returns, and goes back through it where that is possible.
void try_out(const std::string& where, const Tensors& inputs, bool gradient,
             const std::function<Tensors(const Tensors&)>& f) {
  const auto guarded = [&](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error&) {
      // refused, with a reason
    } catch (const std::exception& e) {
      ADD_FAILURE() << where << ": threw " << typeid(e).name() << ": " << e.what();
    }
  };
  guarded([&] {
    for (const Tensor& t : f(copies_of(inputs)))
      if (t.defined() && t.device().is_cpu()) (void)to_host(t);
  });
  if (!gradient) return;
  guarded([&] {
    const Tensors leaves = copies_of(inputs);
    Tensors wanted;
    for (const Tensor& t : leaves) {
      if (!t.defined() || !is_floating(t.dtype())) continue;
      wanted.push_back(t.set_requires_grad());
    }
    Tensors roots;
    Tensors cotangents;
    for (const Tensor& t : f(leaves)) {
      if (!t.requires_grad()) continue;
      roots.push_back(t);
      cotangents.push_back(ones_like(t));
    }
    if (!roots.empty()) (void)grad(roots, wanted, cotangents);
  });
}

bool is_small(const HostArgs& host) {
  int64_t elements = 0;
  for (const HostArray& a : host.in) elements += numel(a.shape);
  return elements <= kLargest;
}

}  // namespace

void Harness::hostile() {
  for (const Sample& sample : case_.samples) {
    const DType dtype =
        std::find(sample.dtypes.begin(), sample.dtypes.end(), DType::f32) != sample.dtypes.end()
            ? DType::f32
            : sample.dtypes[0];
    const HostArgs host = host_inputs(sample, dtype);
    if (!is_small(host)) continue;
    const Args args = device_inputs(sample, host, dtype, device_, Layout::contiguous);
    const bool gradient = differentiable(sample);
    const auto where = [&](const std::string& what) {
      return fmt::format("{}, case '{}', {}", case_.op, sample.name, what);
    };
    // Through the public function.
    const auto call = [&](const Tensors& in) { return sample.call({in, dtype, device_}); };
    for (size_t i = 0; i < args.in.size(); ++i) {
      if (!args.in[i].defined()) continue;
      for (const Substitute& s : substitutes(args.in[i])) {
        Tensors in = args.in;
        in[i] = s.tensor;
        try_out(where(fmt::format("argument {} {}", i, s.what)), in, gradient, call);
      }
    }
    // Past it, straight to dispatch.
    if (!op_) continue;
    std::optional<AnyParams> params;
    Tensors good;
    {
      Spy spy(*op_);
      call(copies_of(args.in));
      params = spy.seen;
      good = spy.in;
    }
    if (!params) continue;
    const auto dispatched = [&](const Tensors& in) -> Tensors {
      const Outputs out = dispatch(*op_, params->ref(), std::span<const Tensor>(in));
      return {out.span().begin(), out.span().end()};
    };
    for (size_t i = 0; i < good.size(); ++i) {
      if (!good[i].defined()) continue;
      for (const Substitute& s : substitutes(good[i])) {
        Tensors in = good;
        in[i] = s.tensor;
        try_out(where(fmt::format("input {} {}", i, s.what)), in, gradient, dispatched);
      }
    }
    Tensors in = good;
    in.push_back(ones({2}, {DType::f32, device_}));
    try_out(where("one input more"), in, gradient, dispatched);
    if (good.empty()) continue;
    in.resize(good.size() - 1);
    try_out(where("one input fewer"), in, gradient, dispatched);
    try_out(where("no inputs"), {}, gradient, dispatched);
  }
}

}  // namespace mica::cases
