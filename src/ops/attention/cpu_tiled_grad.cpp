// The gradient of attention by tiles of weights, which are computed again from the scores and the
// sums of exponentials.
#include <utility>

#include "mica/op/settings.h"
#include "mica/ops/attention/cpu_tile.h"

namespace mica {
namespace {

using namespace attention;
using simd::Vec;

/// A head of keys takes five products, or seven where tiles of keys are tasks of their own and the
/// gradients of the queries are made in a second pass: it pays where heads would leave threads
/// idle.
bool takes_two_passes(int64_t heads, int64_t threads) {
  return 5 * tiles(heads, threads) * threads > 7 * heads;
}

struct State : KernelState {
  AttentionProblem problem;
  AttentionOperands out;
  AttentionRows dy;
  bool two_passes = false;
  int64_t tasks = 1;
  int64_t threads = 1;
  int64_t deltas = 0;  ///< elements: one for each query, before what threads have
  int64_t per_thread = 0;
  int64_t queries = 0;  ///< of them: the gradients of a group's queries
  int64_t converted = 0;
};

template <class C>
int64_t scratch_size(const AttentionProblem& p) {
  const size_t sizes[] = {gemm_scratch<C>(kTileQueries, kTileKeys, p.width),
                          gemm_scratch<C>(kTileQueries, kTileKeys, p.value_width),
                          gemm_scratch<C>(kTileKeys, p.value_width, kTileQueries),
                          gemm_scratch<C>(kTileKeys, p.width, kTileQueries),
                          gemm_scratch<C>(kTileQueries, p.width, kTileKeys)};
  return padded(static_cast<int64_t>(*std::max_element(std::begin(sizes), std::end(sizes))));
}

std::shared_ptr<State> prepare(const AttentionParams& params, const Specs& specs) {
  auto state = std::make_shared<State>();
  state->problem = attention_grad_problem(params, specs);
  state->out = attention_grad_outputs(params, specs);
  state->dy = attention_rows(specs.in[0]);
  const AttentionProblem& p = state->problem;
  const DType dtype = specs.in[0].dtype;
  const int64_t heads = p.batch * p.kv_heads;
  state->two_passes = takes_two_passes(heads, num_threads());
  state->tasks = state->two_passes ? std::max(heads * tiles(p.keys, kTileKeys),
                                              p.batch * p.heads * tiles(p.queries, kTileQueries))
                                   : heads;
  state->threads = std::clamp<int64_t>(state->tasks, 1, num_threads());
  state->deltas = padded(p.batch * p.heads * p.queries);
  const int64_t group = p.kv_heads > 0 ? p.group() : 0;
  state->queries = padded(state->two_passes ? kTileQueries * p.width : group * p.queries * p.width);
  const int64_t both = p.width + p.value_width;
  if (size_of(dtype) == 2) state->converted = (kTileQueries + kTileKeys) * both;
  const int64_t scratch = dtype == DType::f64 ? scratch_size<double>(p) : scratch_size<float>(p);
  state->per_thread = padded(2 * kTileQueries * kTileKeys + kTileKeys * both + state->converted) +
                      state->queries + scratch;
  state->workspace_bytes = static_cast<size_t>(state->deltas + state->threads * state->per_thread) *
                           (dtype == DType::f64 ? sizeof(double) : sizeof(float));
  return state;
}

template <class T>
class Gradient {
 public:
  using C = Compute<T>;

  Gradient(const State& state, const Call& call)
      : s_(state),
        p_(state.problem),
        call_(call),
        dy_(call.in[0].as<const T>()),
        q_(call.in[1].as<const T>()),
        k_(p_.packed ? q_ : call.in[2].as<const T>()),
        v_(p_.packed ? q_ : call.in[3].as<const T>()),
        deltas_(static_cast<C*>(call.workspace)) {}

  void run() {
    compute_deltas();
    if (!s_.two_passes) {
      for_tasks(s_.tasks, s_.threads, [&](int64_t task, int64_t thread) {
        Space space(*this, thread);
        one_head(task / p_.kv_heads, task % p_.kv_heads, space);
      });
      return;
    }
    const int64_t key_tiles = tiles(p_.keys, kTileKeys);
    for_tasks(p_.batch * p_.kv_heads * key_tiles, s_.threads, [&](int64_t task, int64_t thread) {
      Space space(*this, thread);
      const int64_t head = task / key_tiles;
      some_keys(head / p_.kv_heads, head % p_.kv_heads, task % key_tiles * kTileKeys, space, false);
    });
    const int64_t query_tiles = tiles(p_.queries, kTileQueries);
    for_tasks(p_.batch * p_.heads * query_tiles, s_.threads, [&](int64_t task, int64_t thread) {
      Space space(*this, thread);
      const int64_t head = task / query_tiles;
      some_queries(head / p_.heads, head % p_.heads, task % query_tiles * kTileQueries, space);
    });
  }

 private:
  /// A thread's memory.
  struct Space {
    Space(const Gradient& g, int64_t thread) : terms(g.p_, g.call_, kAttentionGradInputs) {
      const int64_t width = g.p_.width;
      C* at = g.deltas_ + g.s_.deltas + thread * g.s_.per_thread;
      const auto take = [&](int64_t count) { return std::exchange(at, at + count); };
      C* const begin = at;
      weights = take(kTileQueries * kTileKeys);
      dscores = take(kTileQueries * kTileKeys);
      dk = take(kTileKeys * width);
      dv = take(kTileKeys * g.p_.value_width);
      q = at;
      dy = q + kTileQueries * width;
      k = dy + kTileQueries * g.p_.value_width;
      v = k + kTileKeys * width;
      dq = begin + padded(q - begin + g.s_.converted);
      scratch = dq + g.s_.queries;
    }
    C *weights, *dscores, *dk, *dv, *q, *dy, *k, *v, *dq, *scratch;
    ScoreTerms<T> terms;
  };
  using Matrix = MatrixView<const C>;
  struct Tile {
    int64_t b, h, query, rows, key, count;
    Matrix q, dy, k, v;
  };

  int64_t row_of(int64_t b, int64_t h, int64_t i) const {
    return (b * p_.heads + h) * p_.queries + i;
  }

  /// The sum of dy · y of each query, less the cotangent of its sum of exponentials.
  void compute_deltas() {
    const T* y = call_.in[kAttentionGradY].template as<const T>();
    const Arg& dlse = call_.in[kAttentionGradDlse];
    const int64_t rows = p_.batch * p_.heads * p_.queries;
    parallel_for(rows, 256, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const int64_t i = n % p_.queries;
        const int64_t h = n / p_.queries % p_.heads;
        const int64_t b = n / p_.queries / p_.heads;
        const T* row = y + p_.y.at(b, h, i);
        const T* d = dy_ + s_.dy.at(b, h, i);
        double sum = 0;
        for (int64_t e = 0; e < p_.value_width; ++e)
          sum += static_cast<double>(static_cast<C>(row[e * p_.y.col])) *
                 static_cast<double>(static_cast<C>(d[e * s_.dy.col]));
        if (dlse.defined()) {
          const Strides& strides = dlse.strides();
          sum -= static_cast<double>(
              dlse.as<const C>()[b * strides[0] + h * strides[1] + i * strides[2]]);
        }
        deltas_[n] = static_cast<C>(sum);
      }
    });
  }

  Matrix query_rows(int64_t b, int64_t h, int64_t i, int64_t rows, Space& space) const {
    return rows_as<C>(q_, p_.q, b, h, i, rows, p_.width, space.q);
  }
  Matrix dy_rows(int64_t b, int64_t h, int64_t i, int64_t rows, Space& space) const {
    return rows_as<C>(dy_, s_.dy, b, h, i, rows, p_.value_width, space.dy);
  }

  /// The weights of a tile, as they were used, and the gradients of its scores, times the scale.
  void compute_tile(const Tile& t, Space& space) const {
    const int64_t length = keys_of(p_, call_.in[kAttentionGradInputs.lengths], t.b);
    const Arg& lse = call_.in[kAttentionGradLse];
    gemm<C>(t.rows, t.count, p_.width, t.q, transposed(t.k), space.weights, kTileKeys, false,
            space.scratch);
    gemm<C>(t.rows, t.count, p_.value_width, t.dy, transposed(t.v), space.dscores, kTileKeys, false,
            space.scratch);
    for (int64_t i = 0; i < t.rows; ++i) {
      const int64_t query = t.query + i;
      const int64_t low = std::clamp<int64_t>(p_.first_key(query, length) - t.key, 0, t.count);
      const int64_t high = std::clamp<int64_t>(p_.last_key(query, length) - t.key, low, t.count);
      const Strides& strides = lse.strides();
      const C sum = lse.as<const C>()[t.b * strides[0] + t.h * strides[1] + query * strides[2]];
      weigh(space.weights + i * kTileKeys, space.dscores + i * kTileKeys, low, high, t.count,
            space.terms.added(t.b, t.h, query, t.key, t.count),
            space.terms.dropped(t.b, t.h, query, t.key, t.count), sum,
            deltas_[row_of(t.b, t.h, query)]);
    }
  }

  void weigh(C* weights, C* dscores, int64_t low, int64_t high, int64_t count, const C* added,
             const C* dropped, C lse, C delta) const {
    constexpr int64_t kLanes = Vec<C>::kWidth;
    constexpr C kNothing = -std::numeric_limits<C>::infinity();
    const C scale = static_cast<C>(p_.scale);
    if (lse == kNothing) high = low;
    for (int64_t j = low; j < high; ++j)
      weights[j] = weights[j] * scale + (added ? added[j] : C(0)) - lse;
    std::fill(weights, weights + low, kNothing);
    std::fill(weights + high, weights + count, kNothing);
    for (int64_t j = 0; j < count; j += kLanes) {
      const int64_t lanes = std::min(kLanes, count - j);
      if (lanes == kLanes) {
        simd::exp_inline(Vec<C>::load(weights + j)).store(weights + j);
      } else {
        for (int64_t l = j; l < count; ++l) weights[l] = std::exp(weights[l]);
      }
    }
    if (dropped) {
      for (int64_t j = 0; j < count; ++j) {
        dscores[j] = weights[j] * (dscores[j] * dropped[j] - delta) * scale;
        weights[j] *= dropped[j];
      }
    } else {
      for (int64_t j = 0; j < count; ++j) dscores[j] = weights[j] * (dscores[j] - delta) * scale;
    }
    std::fill(dscores, dscores + low, C(0));
    std::fill(dscores + high, dscores + count, C(0));
  }

  /// dk and dv of a tile of keys, and what it adds to `space.dq` where that is wanted: the
  /// gradients of all queries of the group.
  void some_keys(int64_t b, int64_t g, int64_t key, Space& space, bool with_queries) const {
    const int64_t length = keys_of(p_, call_.in[kAttentionGradInputs.lengths], b);
    const int64_t count = std::min(kTileKeys, p_.keys - key);
    const Matrix k = rows_as<C>(k_, p_.k, b, g, key, count, p_.width, space.k);
    const Matrix v = rows_as<C>(v_, p_.v, b, g, key, count, p_.value_width, space.v);
    std::fill_n(space.dk, count * p_.width, C(0));
    std::fill_n(space.dv, count * p_.value_width, C(0));
    const int64_t begin = p_.first_query(key, length);
    const int64_t end = key < length ? p_.last_query(key + count - 1, length) : begin;
    for (int64_t member = 0; member < p_.group(); ++member)
      for (int64_t i = begin; i < end; i += kTileQueries) {
        const int64_t h = g * p_.group() + member;
        const int64_t rows = std::min(kTileQueries, end - i);
        const Tile t{b,
                     h,
                     i,
                     rows,
                     key,
                     count,
                     query_rows(b, h, i, rows, space),
                     dy_rows(b, h, i, rows, space),
                     k,
                     v};
        compute_tile(t, space);
        gemm<C>(count, p_.value_width, rows, {space.weights, 1, kTileKeys}, t.dy, space.dv,
                p_.value_width, true, space.scratch);
        gemm<C>(count, p_.width, rows, {space.dscores, 1, kTileKeys}, t.q, space.dk, p_.width, true,
                space.scratch);
        if (with_queries)
          gemm<C>(rows, p_.width, count, {space.dscores, kTileKeys, 1}, k,
                  space.dq + (member * p_.queries + i) * p_.width, p_.width, true, space.scratch);
      }
    store(space.dk, count, p_.width, p_.packed ? 0 : 1, s_.out.k, b, g, key);
    store(space.dv, count, p_.value_width, p_.packed ? 0 : 2, s_.out.v, b, g, key);
  }

  void one_head(int64_t b, int64_t g, Space& space) const {
    std::fill_n(space.dq, p_.group() * p_.queries * p_.width, C(0));
    for (int64_t key = 0; key < p_.keys; key += kTileKeys) some_keys(b, g, key, space, true);
    for (int64_t member = 0; member < p_.group(); ++member)
      store(space.dq + member * p_.queries * p_.width, p_.queries, p_.width, 0, s_.out.q, b,
            g * p_.group() + member, 0);
  }

  void some_queries(int64_t b, int64_t h, int64_t query, Space& space) const {
    const int64_t length = keys_of(p_, call_.in[kAttentionGradInputs.lengths], b);
    const int64_t rows = std::min(kTileQueries, p_.queries - query);
    const Matrix q = query_rows(b, h, query, rows, space);
    const Matrix dy = dy_rows(b, h, query, rows, space);
    const int64_t g = p_.kv_head(h);
    std::fill_n(space.dq, rows * p_.width, C(0));
    const int64_t end = p_.last_key(query + rows - 1, length);
    // Tiles begin where those of `some_keys` do.
    for (int64_t key = p_.first_key(query, length) / kTileKeys * kTileKeys; key < end;
         key += kTileKeys) {
      const int64_t count = std::min(kTileKeys, p_.keys - key);
      const Tile t{b,
                   h,
                   query,
                   rows,
                   key,
                   count,
                   q,
                   dy,
                   rows_as<C>(k_, p_.k, b, g, key, count, p_.width, space.k),
                   rows_as<C>(v_, p_.v, b, g, key, count, p_.value_width, space.v)};
      compute_tile(t, space);
      gemm<C>(rows, p_.width, count, {space.dscores, kTileKeys, 1}, t.k, space.dq, p_.width, true,
              space.scratch);
    }
    store(space.dq, rows, p_.width, 0, s_.out.q, b, h, query);
  }

  void store(const C* from, int64_t rows, int64_t width, size_t output, const AttentionRows& place,
             int64_t b, int64_t h, int64_t first) const {
    T* to = call_.out[output].template as<T>() + place.at(b, h, first);
    for (int64_t i = 0; i < rows; ++i)
      store_run(from + i * width, width, to + i * place.row, place.col);
  }

  const State& s_;
  const AttentionProblem& p_;
  const Call& call_;
  const T* dy_;
  const T* q_;
  const T* k_;
  const T* v_;
  C* deltas_;
};

void run(const AttentionParams&, const State& state, const Call& call) {
  if (state.problem.kv_heads == 0) return;
  switch_float(call.in[0].dtype(), "attention_grad",
               [&]<class T>() { Gradient<T>(state, call).run(); });
}

}  // namespace

Kernel attention_grad_tiled_kernel() {
  return kernel<supports_all<AttentionParams>, prepare, run>("tiled");
}

}  // namespace mica
