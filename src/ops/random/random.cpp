#include "mica/ops/random/random.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numbers>

#include "mica/core/fork.h"
#include "mica/core/philox.h"
#include "mica/core/switch_bytes.h"
#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/random/cpu.h"
#include "mica/ops/sort/sort.h"
#include "mica/runtime/cpu/convert.h"
#include "mica/runtime/cpu/simd.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

constexpr DTypeSet kCounterDType{{DType::i64}, "an i64 counter"};

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
  // Several threads may draw at once.
  out[1] = std::atomic_ref(state[1]).fetch_add(p.count, std::memory_order_relaxed);
}

void check_counter(const TensorSpec& counter) {
  check<DTypeError>(
      counter.dtype == DType::i64 && counter.shape == Shape{2} && counter.is_contiguous(),
      "random: the counter must be i64[2], got {}", counter);
}

void infer_random(const RandomParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<DTypeError>(kFloatDTypes.contains(p.dtype), "random: expected a floating dtype, got {}",
                    p.dtype);
  check_counter(in[0]);
  out.add(p.shape, p.dtype);
}

void infer_randint(const RandintParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<DTypeError>(kIntegerDTypes.contains(p.dtype), "randint: expected {}, got {}",
                    kIntegerDTypes.words(), p.dtype);
  check_counter(in[0]);
  const uint64_t range = static_cast<uint64_t>(p.high) - static_cast<uint64_t>(p.low);
  check(p.low < p.high && range <= uint64_t{1} << 32,
        "randint: expected low < high, at most 2^32 apart, got {} and {}", p.low, p.high);
  const auto [least, most] = integer_limits(p.dtype);
  check(std::cmp_greater_equal(p.low, least) && std::cmp_less_equal(p.high - 1, most),
        "randint: {} does not hold every number from {} to {}", p.dtype, p.low, p.high - 1);
  out.add(p.shape, p.dtype);
}

void run_uniform(const RandomParams& p, const Call& c) {
  switch_float(p.dtype, "uniform", [&]<class T>() {
    using C = Compute<T>;
    T* out = c.out[0].as<T>();
    const auto low = static_cast<C>(p.a);
    const C range = static_cast<C>(p.b) - low;
    for_words(c.in[0].as<int64_t>(), c.out[0].numel(),
              [&](int64_t i, const uint32_t* words, int64_t count) {
                // The product is rounded before the addition, as on the device: in a loop of its
                // own, so that no fused multiply-add comes of the two.
                std::array<C, kWordsAtOnce> scaled;
                for (int64_t k = 0; k < count; ++k)
                  scaled[static_cast<size_t>(k)] = range * static_cast<C>(unit_float(words[k]));
                for (int64_t k = 0; k < count; ++k)
                  out[i + k] = static_cast<T>(low + scaled[static_cast<size_t>(k)]);
              });
  });
}

/// Box-Muller on pairs of words, in double. Random words come in blocks of four, so that there is
/// always a whole vector of pairs of them; what is past the end of the output is not stored.
void run_normal(const RandomParams& p, const Call& c) {
  using Vec = simd::Vec<double>;
  constexpr int64_t kWidth = Vec::kWidth;
  for_words(c.in[0].as<int64_t>(), c.out[0].numel(),
            [&](int64_t i, const uint32_t* words, int64_t count) {
              std::array<double, kWordsAtOnce> z;
              for (int64_t k = 0; k < count; k += 2 * kWidth) {
                Vec u, v;
                for (int64_t lane = 0; lane < kWidth; ++lane) {
                  u.v[lane] = unit_float(words[k + 2 * lane]);
                  v.v[lane] = unit_float(words[k + 2 * lane + 1]);
                }
                const Vec r = sqrt(Vec(-2) * log(Vec(1) - u)) * Vec(p.b);
                const Vec angle = v * Vec(2 * std::numbers::pi);
                const Vec even = r * cos(angle) + Vec(p.a);
                const Vec odd = r * sin(angle) + Vec(p.a);
                for (int64_t lane = 0; lane < kWidth; ++lane) {
                  z[static_cast<size_t>(k + 2 * lane)] = even.v[lane];
                  z[static_cast<size_t>(k + 2 * lane + 1)] = odd.v[lane];
                }
              }
              switch_float(p.dtype, "normal",
                           [&]<class T>() { store_run(z.data(), count, c.out[0].as<T>() + i, 1); });
            });
}

template <class T>
void fill_integers(const RandintParams& p, const Call& c) {
  T* out = c.out[0].as<T>();
  const auto range = static_cast<uint64_t>(p.high) - static_cast<uint64_t>(p.low);
  for_words(c.in[0].as<int64_t>(), c.out[0].numel(),
            [&](int64_t i, const uint32_t* words, int64_t count) {
              for (int64_t k = 0; k < count; ++k)
                out[i + k] = static_cast<T>(p.low + static_cast<int64_t>(words[k] * range >> 32));
            });
}

void run_randint(const RandintParams& p, const Call& c) {
  switch_bytes(size_of(p.dtype), [&]<class T>() { fill_integers<T>(p, c); });
}

thread_local DrawScope* t_scope = nullptr;

/// One generator per device; the states are tensors, so that captured graphs advance them.
struct Generators {
  Mutex mutex;
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

}  // namespace

const OpDef& rng_take_op() {
  static OpDef def = Op<RngTakeParams>("rng_take")
                         .inputs({"state"})
                         .outputs({"counter"})
                         .dtypes(kCounterDType)
                         .infer<infer_take>()
                         .mutates<take_mutates>()
                         .no_gradient("it draws counters")
                         .cpu({kernel<supports_all<RngTakeParams>, run_take>("reference")})
                         .build();
  return def;
}

const OpDef& uniform_op() {
  static OpDef def = Op<RandomParams>("uniform")
                         .inputs({"counter"})
                         .dtypes(kCounterDType)
                         .infer<infer_random>()
                         .no_gradient("its input is a counter")
                         .cpu({kernel<supports_all<RandomParams>, run_uniform>("reference")})
                         .build();
  return def;
}

const OpDef& normal_op() {
  static OpDef def = Op<RandomParams>("normal")
                         .inputs({"counter"})
                         .dtypes(kCounterDType)
                         .infer<infer_random>()
                         .no_gradient("its input is a counter")
                         .cpu({kernel<supports_all<RandomParams>, run_normal>("reference")})
                         .build();
  return def;
}

const OpDef& randint_op() {
  static OpDef def = Op<RandintParams>("randint")
                         .inputs({"counter"})
                         .dtypes(kCounterDType)
                         .infer<infer_randint>()
                         .no_gradient("its input is a counter")
                         .cpu({kernel<supports_all<RandintParams>, run_randint>("reference")})
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
  if (!state.defined()) {
    state = tensor({g.seed, int64_t{0}}, {2}, device);
    synchronize(device);  // all streams draw from it
  }
  return state;
}

DrawScope::DrawScope(std::vector<Draw>& draws, Kind kind)
    : draws_(draws), kind_(kind), outer_(std::exchange(t_scope, this)) {}
DrawScope::~DrawScope() { t_scope = outer_; }

Tensor rng_take(int64_t n, Device device) {
  DrawScope* replay = t_scope;
  while (replay && replay->kind_ != DrawScope::Kind::replay) replay = replay->outer_;
  Tensor counter;
  if (replay) {
    const bool same = replay->next_ < replay->draws_.size() &&
                      replay->draws_[replay->next_].count == n &&
                      replay->draws_[replay->next_].counter.device() == device;
    check(same, "checkpoint: the function drew other random numbers when it ran again");
    counter = replay->draws_[replay->next_++].counter;
  } else {
    counter = dispatch(rng_take_op(), RngTakeParams{(n + 3) / 4}, {rng_state(device)})[0];
  }
  for (DrawScope* s = t_scope; s != replay; s = s->outer_) s->draws_.push_back({n, counter});
  return counter;
}

Tensor uniform(const Shape& shape, double low, double high, TensorOptions options) {
  return draw(uniform_op(), shape, low, high, options);
}

Tensor normal(const Shape& shape, double mean, double std, TensorOptions options) {
  return draw(normal_op(), shape, mean, std, options);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options) {
  const Tensor counter = rng_take(numel(shape), options.device);
  return dispatch(randint_op(), RandintParams{shape, low, high, options.dtype}, {counter})[0];
}

Tensor bernoulli(const Shape& shape, double p, TensorOptions options) {
  check(p >= 0 && p <= 1, "bernoulli: p must be in [0, 1], got {}", p);
  return cast(lt(uniform(shape, 0, 1, {DType::f32, options.device}), p), options.dtype);
}

Tensor bernoulli(const Tensor& p) {
  check<DTypeError>(is_floating(p.dtype()), "bernoulli: expected a floating dtype, got {}",
                    p.dtype());
  return cast(lt(uniform(p.shape(), 0, 1, {DType::f32, p.device()}), p), p.dtype());
}

Tensor uniform_like(const Tensor& x, double low, double high) {
  return uniform(x.shape(), low, high, {x.dtype(), x.device()});
}

Tensor normal_like(const Tensor& x, double mean, double std) {
  return normal(x.shape(), mean, std, {x.dtype(), x.device()});
}

namespace {

/// 0 … n-1 by a stable sort of random words: the same order everywhere, without rejection.
Tensor sorted_by_words(int64_t n, const Tensor& counter) {
  const RandintParams all_words{{n}, 0, int64_t{1} << 32, DType::i64};
  return argsort(dispatch(randint_op(), all_words, {counter})[0]);
}

}  // namespace

Tensor randperm(int64_t n) {
  check<ShapeError>(n >= 0, "randperm: expected a size of at least 0, got {}", n);
  return sorted_by_words(n, rng_take(n, Device::cpu()));
}

Tensor seeded_randperm(int64_t n, uint64_t seed, int64_t nth, Device device) {
  check<ShapeError>(n >= 0, "seeded_randperm: expected a size of at least 0, got {}", n);
  const std::vector counter = {static_cast<int64_t>(seed), nth * ((n + 3) / 4)};
  return sorted_by_words(n, tensor(counter, {2}, device));
}

}  // namespace mica
