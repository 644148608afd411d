#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

constexpr RecurrentMode kModes[] = {RecurrentMode::lstm, RecurrentMode::gru,
                                    RecurrentMode::rnn_tanh, RecurrentMode::rnn_relu};

struct Setup {
  std::string name;
  RecurrentMode mode = RecurrentMode::lstm;
  int64_t steps = 3, batch = 2, inputs = 3, units = 4;
  int64_t projected = 0;
  bool bias = true;
  bool reverse = false;
  std::vector<double> lengths = {};
  double scale = 0.8;     ///< of weights: large ones let errors grow from step to step
  bool positive = false;  ///< nothing cancels, and no relu is at its kink

  bool cells() const { return mode == RecurrentMode::lstm; }
};

/// The inputs of `recurrent`, in its order.
std::vector<Input> inputs_of(const Setup& s) {
  const int64_t rows = gates_of(s.mode) * s.units;
  const int64_t outputs = s.projected ? s.projected : s.units;
  const bool positive = s.positive || s.mode == RecurrentMode::rnn_relu;
  const auto w = [&](const Shape& shape) {
    return positive ? x(shape).in(s.scale / 8, s.scale * 3 / 4) : x(shape).in(-s.scale, s.scale);
  };
  const auto state = [&](const Shape& shape) {
    return positive ? x(shape).in(0.2, 1) : x(shape).in(-1, 1);
  };
  std::vector<Input> in = {state({s.steps, s.batch, s.inputs}), w({rows, s.inputs}),
                           w({rows, outputs})};
  in.push_back(s.bias ? w({rows}) : absent());
  in.push_back(s.bias ? w({rows}) : absent());
  in.push_back(s.projected ? w({s.projected, s.units}) : absent());
  in.push_back(state({s.batch, outputs}));
  in.push_back(s.cells() ? state({s.batch, s.units}) : absent());
  in.push_back(s.lengths.empty() ? absent() : x({s.batch}).of(s.lengths).as<DType::i64>());
  return in;
}

Tensors call_layer(const Setup& s, const Args& a) {
  const RecurrentResult r =
      recurrent(a[0], {a[1], a[2], a[3], a[4], a[5]}, a[6], a[7], a[8], s.mode, s.reverse);
  return s.cells() ? Tensors{r.y, r.h, r.c} : Tensors{r.y, r.h};
}

/// The layer step by step, from cells made of other ops.
Tensors by_cells(const Setup& s, const Args& a) {
  Tensor h = a[6];
  Tensor c = a[7];
  Tensors y(static_cast<size_t>(s.steps));
  for (int64_t i = 0; i < s.steps; ++i) {
    const int64_t t = s.reverse ? s.steps - 1 - i : i;
    const RecurrentResult r =
        recurrent_cell(s.mode, select(a[0], 0, t), h, c, {a[1], a[2], a[3], a[4], {}});
    const Tensor next = a[5].defined() ? linear(r.h, a[5]) : r.h;
    if (a[8].defined()) {
      const Tensor on = unsqueeze(gt(a[8], t), 1);
      y[static_cast<size_t>(t)] = where(on, next, 0.0);
      h = where(on, next, h);
      if (s.cells()) c = where(on, r.c, c);
    } else {
      y[static_cast<size_t>(t)] = h = next;
      c = r.c;
    }
  }
  return s.cells() ? Tensors{stack(y, 0), h, c} : Tensors{stack(y, 0), h};
}

Tensors on_device(const HostArgs& host) {
  Tensors in;
  for (const HostArray& array : host.in)
    in.push_back(array.values.empty() ? Tensor() : reshape(tensor(array.values), array.shape));
  return in;
}

HostArray on_host(const Tensor& t) {
  HostArray array{t.shape(), {}};
  const Tensor dense = contiguous(t);
  const auto* data = dense.data_as<double>();
  array.values.assign(data, data + dense.numel());
  return array;
}

Sample sample_of(const Setup& s) {
  return {.name = std::string(names_of(s.mode)[static_cast<size_t>(s.mode)]) + ", " + s.name,
          .in = inputs_of(s),
          .call = [=](const Args& a) { return call_layer(s, a); },
          .oracle =
              [=](const HostArgs& host) {
                Args a{on_device(host), DType::f64, Device()};
                if (a.in[8].defined()) a.in[8] = cast(a.in[8], DType::i64);
                std::vector<HostArray> out;
                for (const Tensor& t : by_cells(s, a)) out.push_back(on_host(t));
                return out;
              }};
}

std::vector<Setup> setups() {
  std::vector<Setup> all;
  for (const RecurrentMode mode : kModes) {
    all.push_back({.name = "plain", .mode = mode});
    all.push_back({.name = "reverse without biases", .mode = mode, .bias = false, .reverse = true});
    all.push_back({.name = "lengths", .mode = mode, .batch = 3, .lengths = {3, 1, 2}});
    all.push_back({.name = "lengths in reverse",
                   .mode = mode,
                   .batch = 3,
                   .reverse = true,
                   .lengths = {1, 2, 3}});
    all.push_back({.name = "one of all",
                   .mode = mode,
                   .steps = 1,
                   .batch = 1,
                   .inputs = 1,
                   .units = 1,
                   .positive = true});
  }
  all.push_back({.name = "projected", .projected = 3});
  all.push_back({.name = "projected with lengths",
                 .batch = 3,
                 .projected = 2,
                 .reverse = true,
                 .lengths = {3, 1, 2}});
  return all;
}

/// Sizes that the kernels for f16 and bf16 take.
std::vector<Setup> half_setups() {
  std::vector<Setup> all;
  for (const RecurrentMode mode : {RecurrentMode::lstm, RecurrentMode::gru})
    all.push_back({.name = "128 units",
                   .mode = mode,
                   .steps = 4,
                   .batch = 3,
                   .inputs = 8,
                   .units = 128,
                   .reverse = mode == RecurrentMode::gru,
                   .lengths = {4, 1, 3},
                   .scale = 0.1});
  return all;
}

OpCase forward_case() {
  OpCase c{.op = "recurrent",
           .samples = {},
           .second_order = false,
           .no_empty = "a layer has at least one step, sequence, feature and unit",
           .tolerance = Tolerances{{1e-13, 4e-6, 4e-3, 3.2e-2}, {1e-12, 2e-5, 1.2e-2, 1e-1}}};
  for (const Setup& s : setups()) c.samples.push_back(sample_of(s));
  for (const RecurrentMode mode : kModes) {
    Sample large = sample_of({.name = "larger",
                              .mode = mode,
                              .steps = 5,
                              .batch = 9,
                              .inputs = 33,
                              .units = 40,
                              .scale = 0.15});
    large.dtypes = {DType::f32, DType::f16};
    large.gradient = false;
    c.samples.push_back(large);
  }
  for (const Setup& s : half_setups()) {
    Sample half = sample_of(s);
    half.dtypes = {DType::f16, DType::bf16};
    half.gradient = false;
    c.samples.push_back(half);
  }
  const auto call = [](Device d, const Shape& x, const Shape& w_ih, const Shape& w_hh,
                       const Shape& h, DType dtype = DType::f32) {
    const TensorOptions options = {.dtype = DType::f32, .device = d};
    recurrent(zeros(x, options), {zeros(w_ih, options), zeros(w_hh, options), {}, {}, {}},
              zeros(h, {dtype, d}), zeros({2, 3}, options), {}, RecurrentMode::lstm);
  };
  c.bad = {
      bad<ShapeError>("recurrent: expected an input (steps, batch, features), none of them 0, got "
                      "[0, 2, 5]",
                      [=](Device d) { call(d, {0, 2, 5}, {12, 5}, {12, 3}, {2, 3}); }),
      bad<ShapeError>("recurrent: w_ih must be [12, 5], got [12, 4]",
                      [=](Device d) { call(d, {4, 2, 5}, {12, 4}, {12, 3}, {2, 3}); }),
      bad<ShapeError>("recurrent: w_hh must be (4 hidden_size, output size), got [11, 3]",
                      [=](Device d) { call(d, {4, 2, 5}, {12, 5}, {11, 3}, {2, 3}); }),
      bad<ShapeError>("recurrent: h0 must be [2, 3], got [2, 4]",
                      [=](Device d) { call(d, {4, 2, 5}, {12, 5}, {12, 3}, {2, 4}); }),
      bad<DTypeError>("recurrent: weights and states must be f32 as the input, got f64",
                      [=](Device d) { call(d, {4, 2, 5}, {12, 5}, {12, 3}, {2, 3}, DType::f64); }),
      bad<Error>("recurrent: lengths must be in [1, ", [](Device d) {
        const Tensor one = ones({2, 1, 1}, {.device = d});
        const Tensor w = ones({1, 1}, {.device = d});
        recurrent(one, {w, w, {}, {}, {}}, w, {}, full({1}, 0, {DType::i64, d}),
                  RecurrentMode::rnn_tanh);
        synchronize(d);
      })};
  return c;
}

/// Tested through the gradients of `recurrent`; here every kernel against the reference.
OpCase backward_case() {
  OpCase c{.op = "recurrent_grad",
           .samples = {},
           .second_order = false,
           .no_empty = "a layer has at least one step, sequence, feature and unit",
           .tolerance = Tolerances{{1e-13, 1e-5, 8e-3, 6.4e-2}, {0, 0, 0, 0}}};
  std::vector<Setup> all = setups();
  for (const Setup& s : half_setups()) all.push_back(s);
  for (const Setup& s : all) {
    const int64_t outputs = s.projected ? s.projected : s.units;
    const int64_t slots = s.mode == RecurrentMode::lstm || s.mode == RecurrentMode::gru ? 4 : 1;
    const std::vector<Input> layer = inputs_of(s);
    Sample sample{
        .name = std::string(names_of(s.mode)[static_cast<size_t>(s.mode)]) + ", " + s.name,
        .in = {layer[0], layer[1], layer[2], layer[5], layer[6], layer[7], layer[8]},
        .call = [=](const Args& a) {
          return call_op("recurrent_grad", RecurrentGradParams{s.mode, s.reverse, true, true},
                         a.in);
        }};
    sample.in.push_back(x({s.steps, s.batch, outputs}).in(-1, 1));
    // The order of slots is the device's own; equal ones have none.
    std::vector<double> gates;
    for (int64_t i = 0; i < s.steps * s.batch * s.units; ++i)
      gates.insert(gates.end(), static_cast<size_t>(slots), 0.3);
    sample.in.push_back(x({s.steps, s.batch, slots * s.units}).of(gates));
    sample.in.push_back(s.cells() ? x({s.steps, s.batch, s.units}).in(-1, 1) : x({0}));
    sample.in.push_back(x({s.steps, s.batch, outputs}));
    sample.in.push_back(x({s.batch, outputs}));
    sample.in.push_back(s.cells() ? x({s.batch, s.units}) : absent());
    sample.gradient = false;
    if (s.units == 128) sample.dtypes = {DType::f16, DType::bf16};
    c.samples.push_back(sample);
  }
  c.bad = {bad<ShapeError>("recurrent_grad: y must be [2, 1, 1], got [1, 1, 1]", [](Device d) {
    const Tensor one = ones({2, 1, 1}, {.device = d});
    const Tensor w = ones({1, 1}, {.device = d});
    call_op("recurrent_grad", RecurrentGradParams{RecurrentMode::rnn_tanh},
            {one,
             w,
             w,
             {},
             w,
             {},
             {},
             ones({1, 1, 1}, {.device = d}),
             one,
             zeros({0}, {.device = d}),
             one,
             w,
             {}});
  })};
  return c;
}

/// Two layers in both directions over (N, T, features): x, h, c, then the weights.
OpCase stack_case(const char* name, RecurrentMode mode) {
  const int64_t rows = gates_of(mode) * 3;
  const bool cells = mode == RecurrentMode::lstm;
  const bool kinked = mode == RecurrentMode::rnn_relu;
  const auto drawn = [=](const Shape& shape) {
    return kinked ? x(shape).in(0.05, 0.4) : x(shape).in(-0.8, 0.8);
  };
  std::vector<Input> in = {drawn({2, 3, 2}), drawn({4, 2, 3}), cells ? drawn({4, 2, 3}) : absent()};
  for (int i = 0; i < 4; ++i)
    for (const Shape& shape :
         {Shape{rows, i < 2 ? 2 : 6}, Shape{rows, 3}, Shape{rows}, Shape{rows}})
      in.push_back(drawn(shape));
  const auto call = [=](const Tensors& a) {
    const Tensors weights(a.begin() + 3, a.end());
    const RecurrentOptions o = {.layers = 2, .bidirectional = true, .batch_first = true};
    const RecurrentResult r = mode == RecurrentMode::lstm  ? lstm(a[0], a[1], a[2], weights, o)
                              : mode == RecurrentMode::gru ? gru(a[0], a[1], weights, o)
                              : kinked                     ? rnn_relu(a[0], a[1], weights, o)
                                                           : rnn_tanh(a[0], a[1], weights, o);
    return cells ? Tensors{r.y, r.h, r.c} : Tensors{r.y, r.h};
  };
  Sample sample{.name = "two layers in both directions",
                .in = in,
                .call = [=](const Args& a) { return call(a.in); },
                .oracle =
                    [=](const HostArgs& host) {
                      const Tensors a = on_device(host);
                      Tensor layer = swapaxes(a[0], 0, 1);
                      Tensors h;
                      Tensors c;
                      for (size_t l = 0; l < 2; ++l) {
                        Tensors sides;
                        for (size_t d = 0; d < 2; ++d) {
                          const size_t i = 2 * l + d;
                          const Tensor* w = a.data() + 3 + 4 * i;
                          const Setup s{.name = "", .mode = mode, .steps = 3, .reverse = d == 1};
                          const auto at = static_cast<int64_t>(i);
                          const Tensors r = by_cells(s, {{layer,
                                                          w[0],
                                                          w[1],
                                                          w[2],
                                                          w[3],
                                                          {},
                                                          select(a[1], 0, at),
                                                          cells ? select(a[2], 0, at) : Tensor(),
                                                          {}},
                                                         DType::f64,
                                                         Device()});
                          sides.push_back(r[0]);
                          h.push_back(r[1]);
                          if (cells) c.push_back(r[2]);
                        }
                        layer = concat(sides, -1);
                      }
                      std::vector<HostArray> out = {on_host(swapaxes(layer, 0, 1)),
                                                    on_host(stack(h, 0))};
                      if (cells) out.push_back(on_host(stack(c, 0)));
                      return out;
                    }};
  const std::string op = name;
  return {.op = name,
          .samples = {sample},
          .bad = {bad<ShapeError>(op + ": expected an input of 3 axes, or of 2 for one sequence",
                                  [=](Device d) {
                                    Tensors all(19, ones({1}, {.device = d}));
                                    call(all);
                                  }),
                  bad<Error>(op + ": expected 16 tensors of weights for 2 layers in two directions "
                                  "with biases, got 2",
                             [=](Device d) {
                               Tensors few(5, ones({1, 1, 1}, {.device = d}));
                               call(few);
                             }),
                  bad<Error>(op + ": the input and all weights must be defined",
                             [=](Device d) {
                               Tensors all(19, ones({1, 1, 1}, {.device = d}));
                               all[4] = {};
                               call(all);
                             })},
          .second_order = false,
          .no_empty = "a layer has at least one step, sequence, feature and unit",
          .no_single = "the op it is made of has such a sample",
          .tolerance = Tolerances{{1e-13, 4e-6, 4e-3, 3.2e-2}, {1e-12, 2e-5, 1.2e-2, 1e-1}}};
}

const Room kRoom([] {
  return std::vector<OpCase>{forward_case(),
                             backward_case(),
                             stack_case("lstm", RecurrentMode::lstm),
                             stack_case("gru", RecurrentMode::gru),
                             stack_case("rnn_tanh", RecurrentMode::rnn_tanh),
                             stack_case("rnn_relu", RecurrentMode::rnn_relu)};
});

}  // namespace
}  // namespace mica::cases
