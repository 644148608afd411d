// Layer, RMS and group norms that carry programs.
#include <cmath>

#include "tests/op_cases/anchored.h"
#include "tests/op_cases/conv_oracle.h"

namespace mica::cases {
namespace {

struct Setup {
  const char* name;
  Shape x;
  int64_t n;  ///< of a row
  bool affine = true;
  int64_t groups = 0;  ///< of a group norm; 0: a layer norm over the last axis
  bool centred = true;
};

const char* op_of(const Setup& s) {
  if (s.groups > 0) return "group_norm";
  return s.centred ? "layer_norm" : "rms_norm";
}

/// As the op's oracle has it: y, the mean where it is centred, 1/std.
std::vector<HostArray> normalised(const Setup& s, const HostArray& x, const HostArgs& in) {
  const size_t n = at(s.n);
  const size_t rows = x.values.size() / n;
  const Shape statistics = s.groups > 0 ? Shape{s.x[0], s.groups} : [&] {
    Shape shape = s.x;
    shape[shape.rank() - 1] = 1;
    return shape;
  }();
  HostArray y{x.shape, x.values};
  HostArray mean = zeros_of(statistics);
  HostArray rstd = zeros_of(statistics);
  const size_t channels = s.groups > 0 ? at(s.x[1]) : n;
  const size_t plane = s.groups > 0 ? x.values.size() / at(s.x[0]) / channels : 1;
  for (size_t r = 0; r < rows; ++r) {
    double centre = 0;
    for (size_t i = 0; i < n; ++i) centre += x.values[r * n + i] / static_cast<double>(n);
    if (!s.centred) centre = 0;
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += std::pow(x.values[r * n + i] - centre, 2);
    mean.values[r] = centre;
    rstd.values[r] = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    for (size_t i = r * n; i < (r + 1) * n; ++i) {
      const size_t c = i / plane % channels;
      double value = (x.values[i] - centre) * rstd.values[r];
      if (s.affine) value *= in[1].values[c];
      if (s.affine && s.centred) value += in[2].values[c];
      y.values[i] = value;
    }
  }
  return s.centred ? std::vector{y, mean, rstd} : std::vector{y, rstd};
}

Tensors call(const Setup& s, Anchored whole, const Tensors& in) {
  whole.op = &find_op(op_of(s));
  whole.params = s.groups > 0
                     ? AnyParams(ParamsRef::of(GroupNormParams{.groups = s.groups}))
                     : AnyParams(ParamsRef::of(LayerNormParams{.normalized_shape = {s.n}}));
  return call_op("anchored", AnchoredParams{intern(whole)}, in);
}

Sample start(const Setup& s, const char* what) {
  const int64_t parameters = s.groups > 0 ? s.x[1] : s.n;
  Sample sample{.name = std::string(op_of(s)) + ", " + what + ", " + s.name,
                .in = {x(s.x), s.affine ? x({parameters}) : absent()},
                .call = nullptr};
  if (s.centred) sample.in.push_back(s.affine ? x({parameters}) : absent());
  sample.in.push_back(x(s.x));
  return sample;
}

/// silu(norm + a tensor) and the norm itself.
Sample after_sample(const Setup& s) {
  Sample sample = start(s, "silu of a sum");
  const size_t more = sample.in.size() - 1;
  sample.call = [=](const Args& a) {
    Anchored whole{
        .after = intern(Program{2, {elementwise("add", {0, 1}), elementwise("silu", {2})}, {1}})};
    whole.keeps_result = true;
    return call(s, whole, a.in);
  };
  sample.oracle = [=](const HostArgs& in) {
    std::vector<HostArray> out = normalised(s, in[0], in);
    out.insert(out.begin(), out[0]);
    for (size_t i = 0; i < out[0].values.size(); ++i)
      out[0].values[i] = activated(out[0].values[i] + in[more].values[i], Activation::silu);
    return out;
  };
  return sample;
}

/// The norm of a sum, which is kept; of f16 and bf16 its statistics are those of the rounded sum.
Sample before_sample(const Setup& s) {
  Sample sample = start(s, "of a sum");
  const size_t more = sample.in.size() - 1;
  sample.call = [=](const Args& a) {
    Anchored whole{.before = intern(Program{2, {elementwise("add", {0, 1})}, {0}})};
    whole.keeps_operand = true;
    const Tensors out = call(s, whole, a.in);
    return Tensors{out[0], out.back()};
  };
  sample.oracle = [=](const HostArgs& in) {
    HostArray sum = in[0];
    for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += in[more].values[i];
    return std::vector{normalised(s, sum, in)[0], sum};
  };
  return sample;
}

/// The gradient of a layer norm of rows of n, and a sum after it; dx, dweight and dbias.
Sample grad_sample(const char* name, int64_t rows, int64_t n) {
  Sample sample{.name = std::string("layer_norm_grad, and a sum, ") + name,
                .in = {x({rows, n}), x({rows, n}), x({n}), x({rows, 1}).in(-0.5, 0.5).statistic(),
                       x({rows, 1}).in(0.5, 2).statistic(), x({rows, n})},
                .call = nullptr};
  sample.call = [n](const Args& a) {
    return call_carrying("layer_norm_grad", LayerNormGradParams{{n}, true},
                         Program{2, {elementwise("add", {1, 0})}, {0}}, a.in);
  };
  sample.oracle = [=](const HostArgs& in) {
    HostArray dx = in[5];
    HostArray dweight = zeros_of({n});
    HostArray dbias = zeros_of({n});
    const auto width = static_cast<size_t>(n);
    for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
      const double rstd = in[4].values[r];
      double sum = 0;
      double product = 0;
      const auto normal = [&](size_t i) {
        return (in[1].values[r * width + i] - in[3].values[r]) * rstd;
      };
      for (size_t i = 0; i < width; ++i) {
        const double d = in[0].values[r * width + i];
        sum += d * in[2].values[i] / static_cast<double>(n);
        product += d * in[2].values[i] * normal(i) / static_cast<double>(n);
        dweight.values[i] += d * normal(i);
        dbias.values[i] += d;
      }
      for (size_t i = 0; i < width; ++i)
        dx.values[r * width + i] +=
            (in[0].values[r * width + i] * in[2].values[i] - sum - normal(i) * product) * rstd;
    }
    return std::vector{dx, dweight, dbias};
  };
  return sample;
}

}  // namespace

std::vector<Sample> row_norm_carrying_samples() {
  std::vector<Sample> samples = {grad_sample("short rows", 5, 7),
                                 grad_sample("whole vectors", 40, 72),
                                 grad_sample("more loads", 9, 320)};
  for (const Setup& s : std::vector<Setup>{
           {"short rows", {5, 7}, 7},
           {"whole vectors", {3, 4, 64}, 64},
           {"no weight", {4, 24}, 24, false},
           {"a block", {3, 1100}, 1100},
           {"one element", {1, 1}, 1},
           {"no rows", {0, 4}, 4},
           {"not centred", {6, 48}, 48, true, 0, false},
           {"3 of 6 channels", {2, 6, 3, 5}, 45, true, 2},
           {"whole vectors of a channel", {2, 4, 4, 8}, 64, true, 2},
       }) {
    samples.push_back(after_sample(s));
    samples.push_back(before_sample(s));
  }
  return samples;
}

}  // namespace mica::cases
