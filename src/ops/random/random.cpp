#include "mica/ops/random/random.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <numeric>

#include "mica/core/philox.h"
#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/random/cpu.h"

namespace mica {
namespace {

void infer_take(const RngTakeParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check<DTypeError>(in[0].dtype == DType::i64 && in[0].shape == Shape{2} && in[0].is_contiguous(),
                    "rng_take: the state must be i64[2], got {}", in[0]);
  out.add({2}, DType::i64);
}
bool take_mutates(const RngTakeParams&, int input, int) { return input == 0; }

void run_take(const RngTakeParams& p, const Call& c) {
  auto* state = c.in[0].as<int64_t>();
  auto* out = c.out[0].as<int64_t>();
  out[0] = state[0];
  out[1] = state[1];
  state[1] += p.count;
}

void infer_random(const RandomParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<DTypeError>(is_floating(p.dtype), "random: expected a floating dtype, got {}", p.dtype);
  check<DTypeError>(in[0].dtype == DType::i64 && in[0].shape == Shape{2} && in[0].is_contiguous(),
                    "random: the counter must be i64[2], got {}", in[0]);
  out.add(p.shape, p.dtype);
}

template <class Make>
void fill_random(const RandomParams& p, const Call& c, Make make) {
  const auto* counter = c.in[0].as<int64_t>();
  switch_float(p.dtype, "random", [&]<class T>() {
    T* out = c.out[0].as<T>();
    const int64_t n = c.out[0].numel();
    for_blocks(counter, n, [&](int64_t i, const Philox4& block) {
      const int64_t lanes = std::min<int64_t>(4, n - i);
      for (int64_t lane = 0; lane < lanes; ++lane)
        out[i + lane] = make.template operator()<T>(block, lane);
    });
  });
}

void run_uniform(const RandomParams& p, const Call& c) {
  fill_random(p, c, [&]<class T>(const Philox4& block, int64_t lane) {
    using C = Compute<T>;
    const C u = static_cast<C>(unit_float(block.v[lane]));
    const C range = static_cast<C>(p.b) - static_cast<C>(p.a);
    const volatile C scaled = range * u;  // rounded before the addition, as on the device
    return static_cast<T>(static_cast<C>(p.a) + scaled);
  });
}

/// Box-Muller on the lane's pair.
void run_normal(const RandomParams& p, const Call& c) {
  fill_random(p, c, [&]<class T>(const Philox4& block, int64_t lane) {
    const int64_t pair = lane & ~int64_t{1};
    const double u = unit_float(block.v[pair]);
    const double v = unit_float(block.v[pair + 1]);
    const double r = std::sqrt(-2.0 * std::log(1.0 - u));
    const double angle = 2.0 * std::numbers::pi * v;
    const double z = r * (lane & 1 ? std::sin(angle) : std::cos(angle));
    return static_cast<T>(static_cast<Compute<T>>(p.a + p.b * z));
  });
}

/// One generator per device; the states are tensors, so that captured graphs advance them.
struct Generators {
  std::mutex mutex;
  int64_t seed = 0;
  std::map<std::pair<DeviceKind, int>, Tensor> states;
};

Generators& generators() {
  static auto* const g = new Generators;
  return *g;
}

Tensor draw(const OpDef& op, const Shape& shape, double a, double b, TensorOptions options) {
  const Tensor counter = rng_take(numel(shape), options.device);
  return dispatch(op, RandomParams{shape, a, b, options.dtype}, {counter})[0];
}

/// 0 … n-1 by a stable sort of random keys: the same order everywhere, without rejection.
Tensor sorted_by_keys(int64_t n, const int64_t* counter) {
  std::vector<uint32_t> keys(static_cast<size_t>(n));
  for_blocks(counter, n, [&](int64_t i, const Philox4& block) {
    for (int64_t lane = 0; lane < std::min<int64_t>(4, n - i); ++lane)
      keys[static_cast<size_t>(i + lane)] = block.v[lane];
  });
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
  });
  return tensor(order, {n});
}

}  // namespace

const OpDef& rng_take_op() {
  static OpDef def = Op<RngTakeParams>("rng_take")
                         .infer<infer_take>()
                         .mutates<take_mutates>()
                         .no_gradient("it draws counters")
                         .cpu({kernel<supports_all<RngTakeParams>, run_take>("reference")})
                         .build();
  return def;
}

const OpDef& uniform_op() {
  static OpDef def = Op<RandomParams>("uniform")
                         .infer<infer_random>()
                         .no_gradient("its input is a counter")
                         .cpu({kernel<supports_all<RandomParams>, run_uniform>("reference")})
                         .build();
  return def;
}

const OpDef& normal_op() {
  static OpDef def = Op<RandomParams>("normal")
                         .infer<infer_random>()
                         .no_gradient("its input is a counter")
                         .cpu({kernel<supports_all<RandomParams>, run_normal>("reference")})
                         .build();
  return def;
}

void manual_seed(uint64_t seed) {
  Generators& g = generators();
  const std::lock_guard lock(g.mutex);
  g.seed = static_cast<int64_t>(seed);
  for (auto& [key, state] : g.states) copy_(state, tensor({g.seed, int64_t{0}}, {2}));
}

Tensor rng_state(Device device) {
  Generators& g = generators();
  const std::lock_guard lock(g.mutex);
  Tensor& state = g.states[{device.kind, device.index}];
  if (!state.defined()) state = tensor({g.seed, int64_t{0}}, {2}, device);
  return state;
}

Tensor rng_take(int64_t n, Device device) {
  return dispatch(rng_take_op(), RngTakeParams{(n + 3) / 4}, {rng_state(device)})[0];
}

Tensor uniform(const Shape& shape, double low, double high, TensorOptions options) {
  return draw(uniform_op(), shape, low, high, options);
}

Tensor normal(const Shape& shape, double mean, double std, TensorOptions options) {
  return draw(normal_op(), shape, mean, std, options);
}

Tensor randperm(int64_t n) {
  check<ShapeError>(n >= 0, "randperm: expected a size of at least 0, got {}", n);
  const Tensor counter = rng_take(n, Device::cpu());
  return sorted_by_keys(n, counter.data_as<int64_t>());
}

Tensor seeded_randperm(int64_t n, uint64_t seed, int64_t nth) {
  check<ShapeError>(n >= 0, "seeded_randperm: expected a size of at least 0, got {}", n);
  const int64_t counter[2] = {static_cast<int64_t>(seed), nth * ((n + 3) / 4)};
  return sorted_by_keys(n, counter);
}

}  // namespace mica
