// Updates whose gradients are products of linear layers' operands.
#include "mica/ops/optimizer_update/linear_update.h"

#include "tests/op_cases/op_case.h"
#include "tests/op_cases/update_formulas.h"

namespace mica::cases {
namespace {

/// A linear layer: dy (rows, out), x (rows, in).
struct Layer {
  int64_t rows, out, in;
};

/// The gradients of weight and bias.
std::vector<HostArray> gradients(const HostArray& dy, const HostArray& x) {
  const int64_t rows = dy.shape[0];
  const int64_t out = dy.shape[1];
  const int64_t in = x.shape[1];
  HostArray dw{{out, in}, std::vector<double>(static_cast<size_t>(out * in))};
  HostArray db{{out}, std::vector<double>(static_cast<size_t>(out))};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < out; ++j) {
      const double g = dy.values[static_cast<size_t>(r * out + j)];
      db.values[static_cast<size_t>(j)] += g;
      for (int64_t k = 0; k < in; ++k)
        dw.values[static_cast<size_t>(j * in + k)] += g * x.values[static_cast<size_t>(r * in + k)];
    }
  return {dw, db};
}

/// Inputs as of the op; results: the parameters and states after.
template <class P>
Sample update(const char* op, const char* name, const std::vector<Layer>& layers,
              const std::vector<Shape>& others, size_t states, const Formula& formula, P params) {
  std::vector<Shape> shapes;
  std::vector<Shape> grads;
  for (const Layer& l : layers) {
    shapes.insert(shapes.end(), {Shape{l.out, l.in}, Shape{l.out}});
    grads.insert(grads.end(), {Shape{l.rows, l.out}, Shape{l.rows, l.in}});
  }
  shapes.insert(shapes.end(), others.begin(), others.end());
  grads.insert(grads.end(), others.begin(), others.end());
  const size_t n = shapes.size();
  params.count = static_cast<int64_t>(n);
  const update::WithLayers<P> all{params, static_cast<int64_t>(layers.size())};
  const size_t of_layers = 2 * layers.size();
  Sample s{.name = name,
           .in = {x({}).of({0.1}).as<DType::f32>(), x({}).of({3}).as<DType::i64>()},
           .call =
               [=](const Args& a) {
                 Tensors in = a.in;
                 Tensors results;
                 for (size_t i = 2; i < in.size(); ++i) {
                   if (i >= 2 + n && i < 2 + 2 * n) continue;
                   in[i] = clone(in[i]);
                   results.push_back(in[i]);
                 }
                 // A gradient lies as its parameter does.
                 for (size_t k = of_layers; k < n; ++k)
                   in[2 + n + k] = contiguous(in[2 + n + k], in[2 + k].spec().is_channels_last()
                                                                 ? MemoryFormat::channels_last
                                                                 : MemoryFormat::contiguous);
                 call_op(op, all, in);
                 return results;
               },
           .oracle =
               [=](const HostArgs& in) {
                 std::vector<HostArray> given = inputs(in, 2 + n, n);
                 for (size_t k = 0; k < of_layers; k += 2) {
                   const std::vector<HostArray> made = gradients(given[k], given[k + 1]);
                   std::copy(made.begin(), made.end(), given.begin() + static_cast<int64_t>(k));
                 }
                 return updated(in, given, states, formula);
               },
           .dtypes = {DType::f64, DType::f32},  // halves have masters, and no kernel
           .gradient = false};
  for (const Shape& shape : shapes) s.in.push_back(x(shape));
  for (const Shape& shape : grads) s.in.push_back(x(shape).in(-1, 1));
  for (size_t k = 0; k < states; ++k)
    for (const Shape& shape : shapes) s.in.push_back(x(shape).in(1, 5));
  return s;
}

using Make =
    std::function<Sample(const char* name, const std::vector<Layer>&, const std::vector<Shape>&)>;

std::vector<Sample> samples(const Make& of) {
  std::vector<Layer> many_layers;
  std::vector<Shape> many_others;
  for (int64_t i = 1; i <= 20; ++i) many_layers.push_back({i, 21 - i, 2 * i});
  for (int64_t i = 1; i <= 70; ++i) many_others.push_back({i});
  std::vector<Sample> all = {of("a layer and another parameter", {{4, 5, 6}}, {{3, 4}}),
                             of("two layers, one parameter longer than a block",
                                {{8, 12, 16}, {8, 3, 12}}, {{2, 3, 20, 20}}),
                             of("one element", {{1, 1, 1}}, {{1}}),
                             of("an empty parameter", {{2, 3, 4}}, {{0}, {3}}),
                             of("no rows", {{0, 3, 4}}, {{2}}),
                             of("no layer", {}, {{5}, {2, 3, 4, 5}})};
  std::vector<Sample> large = {of("whole tiles", {{64, 64, 128}}, {}),
                               of("many rows, edges in every direction", {{131, 37, 70}}, {{7}}),
                               of("odd sizes", {{33, 35, 67}}, {}),
                               of("more than one launch takes", many_layers, many_others)};
  for (Sample& s : large) all.push_back(std::move(s));
  return all;
}

/// Of a layer with a weight (5, 6) and a bias.
template <class P>
std::vector<BadCall> bad_calls(const std::string& op, P params, int states) {
  params.count = 2;
  const auto call = [=](Device d, const Shape& x, int64_t layers) {
    const TensorOptions o{.device = d};
    Tensors in = {zeros({}, o), zeros({}, {.dtype = DType::i64, .device = d})};
    in.insert(in.end(), {zeros({5, 6}, o), zeros({5}, o), zeros({4, 5}, o), zeros(x, o)});
    for (int s = 0; s < states; ++s) in.insert(in.end(), {zeros({5, 6}, o), zeros({5}, o)});
    call_op(op.c_str(), update::WithLayers<P>{params, layers}, in);
  };
  return {bad<ShapeError>(op + ": expected [rows, out] and [rows, in] for a weight [5, 6] and a "
                               "bias [5], got [4, 5] and [3, 6]",
                          [=](Device d) { call(d, {3, 6}, 1); }),
          bad<Error>(op + ": expected two parameters for each of 2 layers, got 2 of ",
                     [=](Device d) { call(d, {4, 6}, 2); })};
}

OpCase sgd_case() {
  const char* op = "linear_sgd_update";
  const auto with = [=](const SgdParams& p) -> Make {
    return [=](const char* name, const std::vector<Layer>& layers, const std::vector<Shape>& rest) {
      return update(op, name, layers, rest, p.momentum != 0 ? 1 : 0, sgd_formula(p), p);
    };
  };
  std::vector<Sample> all = samples(with({.momentum = 0.8, .dampening = 0.1, .weight_decay = 0.1}));
  all.push_back(with({})("plain", {{70, 20, 30}}, {{4}}));
  all.push_back(with({.momentum = 0.9, .nesterov = true})("nesterov", {{6, 20, 30}}, {{4}}));
  return {.op = op, .samples = std::move(all), .bad = bad_calls(op, SgdParams{}, 0)};
}

OpCase adam_case() {
  const char* op = "linear_adam_update";
  const auto with = [=](const AdamParams& p) -> Make {
    return [=](const char* name, const std::vector<Layer>& layers, const std::vector<Shape>& rest) {
      return update(op, name, layers, rest, p.amsgrad ? 3 : 2, adam_formula(p), p);
    };
  };
  std::vector<Sample> all = samples(with({.beta2 = 0.99, .weight_decay = 0.1}));
  all.push_back(with({.weight_decay = 0.1, .decoupled = true})("decoupled", {{6, 20, 30}}, {{4}}));
  all.push_back(with({.beta2 = 0.9, .amsgrad = true})("amsgrad", {{6, 20, 30}}, {{4}}));
  return {.op = op, .samples = std::move(all), .bad = bad_calls(op, AdamParams{}, 2)};
}

OpCase rmsprop_case() {
  const char* op = "linear_rmsprop_update";
  const auto with = [=](const RmspropParams& p) -> Make {
    return [=](const char* name, const std::vector<Layer>& layers, const std::vector<Shape>& rest) {
      return update(op, name, layers, rest, 1U + (p.momentum != 0), rmsprop_formula(p), p);
    };
  };
  std::vector<Sample> all = samples(with({.alpha = 0.9, .weight_decay = 0.1, .momentum = 0.8}));
  all.push_back(with({})("defaults", {{6, 20, 30}}, {{4}}));
  return {.op = op, .samples = std::move(all), .bad = bad_calls(op, RmspropParams{}, 1)};
}

OpCase adagrad_case() {
  const AdagradParams p{.lr_decay = 0.2, .weight_decay = 0.1};
  return {.op = "linear_adagrad_update",
          .samples = samples([=](const char* name, const std::vector<Layer>& layers,
                                 const std::vector<Shape>& rest) {
            return update("linear_adagrad_update", name, layers, rest, 1, adagrad_formula(p), p);
          }),
          .bad = bad_calls("linear_adagrad_update", p, 1)};
}

const Room kRoom([] {
  return std::vector<OpCase>{sgd_case(), adam_case(), rmsprop_case(), adagrad_case()};
});

}  // namespace
}  // namespace mica::cases
