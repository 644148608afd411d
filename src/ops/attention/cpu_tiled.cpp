// Attention by tiles of scores, whose softmax goes on from tile to tile.
#include "mica/op/settings.h"
#include "mica/ops/attention/cpu_tile.h"

namespace mica {
namespace {

using namespace attention;
using simd::Vec;

// Of each thread: a tile of scores, sums of values, the largest score and the sum of weights of
// each query, keys and values that had to be converted, scratch memory of products.
struct State : KernelState {
  AttentionProblem problem;
  int64_t threads = 1;
  int64_t per_thread = 0;  ///< elements
  int64_t converted = 0;   ///< of them
};

template <class C>
int64_t scratch_size(const AttentionProblem& p) {
  return padded(
      static_cast<int64_t>(std::max(gemm_scratch<C>(kTileQueries, kTileKeys, p.width),
                                    gemm_scratch<C>(kTileQueries, p.value_width, kTileKeys))));
}

std::shared_ptr<State> prepare(const AttentionParams& params, const Specs& specs) {
  auto state = std::make_shared<State>();
  state->problem = attention_problem(params, specs);
  const AttentionProblem& p = state->problem;
  const DType dtype = specs.out[0].dtype;
  const int64_t tasks = p.batch * p.heads * tiles(p.queries, kTileQueries);
  state->threads = std::clamp<int64_t>(tasks, 1, num_threads());
  if (size_of(dtype) == 2)
    state->converted = (kTileQueries + kTileKeys) * p.width + kTileKeys * p.value_width;
  const int64_t scratch = dtype == DType::f64 ? scratch_size<double>(p) : scratch_size<float>(p);
  state->per_thread =
      padded(kTileQueries * (kTileKeys + p.value_width + 2) + state->converted) + scratch;
  state->workspace_bytes = static_cast<size_t>(state->threads * state->per_thread) *
                           (dtype == DType::f64 ? sizeof(double) : sizeof(float));
  return state;
}

/// The scores of a query, of which it looks at the keys [low, high), become weights; its sums so
/// far are brought to the new largest score.
template <class C>
void weigh(C* scores, int64_t low, int64_t high, int64_t count, C scale, const C* added,
           const C* dropped, C& largest, C& total, C* sums, int64_t width) {
  constexpr C kNothing = -std::numeric_limits<C>::infinity();
  constexpr int64_t kLanes = Vec<C>::kWidth;
  const int64_t whole = (count + kLanes - 1) / kLanes * kLanes;
  std::fill(scores, scores + low, kNothing);
  for (int64_t j = low; j < high; ++j) scores[j] = scores[j] * scale + (added ? added[j] : C(0));
  std::fill(scores + high, scores + whole, kNothing);
  Vec<C> most(largest);
  for (int64_t j = 0; j < whole; j += kLanes) {
    const Vec<C> s = Vec<C>::load(scores + j);
    most = select(s > most, s, select(s == s, most, s));
  }
  const C now = simd::max_lane(most);
  if (now == kNothing) {
    std::fill_n(scores, whole, C(0));
    return;
  }
  Vec<C> sum(0);
  for (int64_t j = 0; j < whole; j += kLanes) {
    const Vec<C> w = simd::exp_inline(Vec<C>::load(scores + j) - Vec<C>(now));
    w.store(scores + j);
    sum += w;
  }
  const C factor = largest == kNothing ? C(0) : std::exp(largest - now);
  total = total * factor + simd::sum_lanes(sum);
  largest = now;
  if (factor != C(1))
    for (int64_t e = 0; e < width; ++e) sums[e] *= factor;
  for (int64_t j = 0; dropped && j < count; ++j) scores[j] *= dropped[j];
}

template <class T>
void attend(const State& state, const Call& call) {
  using C = Compute<T>;
  constexpr C kNothing = -std::numeric_limits<C>::infinity();
  const AttentionProblem& p = state.problem;
  const T* q = call.in[0].as<const T>();
  const T* k = p.packed ? q : call.in[1].as<const T>();
  const T* v = p.packed ? q : call.in[2].as<const T>();
  const int64_t blocks = tiles(p.queries, kTileQueries);
  for_tasks(p.batch * p.heads * blocks, state.threads, [&](int64_t task, int64_t thread) {
    const int64_t block = task % blocks;
    const int64_t h = task / blocks % p.heads;
    const int64_t b = task / blocks / p.heads;
    const int64_t g = p.kv_head(h);
    const int64_t length = keys_of(p, call.in[4], b);
    const int64_t first = block * kTileQueries;
    const int64_t rows = std::min(kTileQueries, p.queries - first);
    C* scores = static_cast<C*>(call.workspace) + thread * state.per_thread;
    C* sums = scores + kTileQueries * kTileKeys;
    C* largest = sums + kTileQueries * p.value_width;
    C* totals = largest + kTileQueries;
    C* converted = totals + kTileQueries;
    C* converted_k = converted + kTileQueries * p.width;
    C* converted_v = converted_k + kTileKeys * p.width;
    C* scratch = scores + padded(converted - scores + state.converted);
    std::fill_n(sums, rows * p.value_width, C(0));
    std::fill_n(largest, rows, kNothing);
    std::fill_n(totals, rows, C(0));
    ScoreTerms<T> terms(p, call, kAttentionInputs);
    const auto query = rows_as<C>(q, p.q, b, h, first, rows, p.width, converted);
    const int64_t begin = p.first_key(first, length);
    const int64_t end = p.last_key(first + rows - 1, length);
    for (int64_t j = begin; j < end; j += kTileKeys) {
      const int64_t count = std::min(kTileKeys, end - j);
      const auto keys = rows_as<C>(k, p.k, b, g, j, count, p.width, converted_k);
      gemm<C>(rows, count, p.width, query, transposed(keys), scores, kTileKeys, false, scratch);
      for (int64_t i = 0; i < rows; ++i) {
        C* row = scores + i * kTileKeys;
        const int64_t low = std::clamp<int64_t>(p.first_key(first + i, length) - j, 0, count);
        const int64_t high = std::clamp<int64_t>(p.last_key(first + i, length) - j, low, count);
        weigh(row, low, high, count, static_cast<C>(p.scale),
              terms.added(b, h, first + i, j, count), terms.dropped(b, h, first + i, j, count),
              largest[i], totals[i], sums + i * p.value_width, p.value_width);
      }
      const auto values = rows_as<C>(v, p.v, b, g, j, count, p.value_width, converted_v);
      gemm<C>(rows, p.value_width, count, {scores, kTileKeys, 1}, values, sums, p.value_width, true,
              scratch);
    }
    for (int64_t i = 0; i < rows; ++i) {
      C* row = sums + i * p.value_width;
      const C factor = largest[i] == kNothing ? C(0) : 1 / totals[i];
      for (int64_t e = 0; e < p.value_width; ++e) row[e] *= factor;
      store_run(row, p.value_width, call.out[0].as<T>() + p.y.at(b, h, first + i), p.y.col);
      call.out[1].as<C>()[(b * p.heads + h) * p.queries + first + i] =
          largest[i] == kNothing ? kNothing : largest[i] + std::log(totals[i]);
    }
  });
}

void run(const AttentionParams&, const State& state, const Call& call) {
  switch_float(call.out[0].dtype(), "attention", [&]<class T>() { attend<T>(state, call); });
}

}  // namespace

Kernel attention_tiled_kernel() {
  return kernel<supports_all<AttentionParams>, prepare, run>("tiled");
}

}  // namespace mica
