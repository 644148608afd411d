#include <cmath>

#include "mica/core/dtype_switch.h"
#include "mica/ops/elementwise/functors.h"
#include "mica/ops/fused/cpu_pieces.h"
#include "mica/ops/fused/fused_reduce.h"
#include "mica/runtime/cpu/parallel.h"
#include "mica/runtime/cpu/runs.h"

// A piece is a range of the elements in row-major order, which may end inside a row. What it has of
// a row is reduced to one number, kept as number row + piece, which no other part of a row has; in
// the end those of a row are joined in order, whoever made them.
namespace mica {
namespace {

using namespace fused;
using simd::Vec;

struct ReduceState : TiledState {
  using TiledState::TiledState;
  ReducedRows rows{};

  /// The piece an element lies in.
  int64_t piece_of(int64_t at) const {
    const int64_t line = pieces.length * pieces.row;  // what is cut into `along` pieces
    return at / line * pieces.along + at % line / pieces.elements();
  }
};

template <class F, class C>
double extreme_of(const C* x, int64_t n) {
  const F f;
  C all = x[0];
  int64_t i = 0;
  if (n >= Vec<C>::kWidth) {
    Vec<C> lanes = Vec<C>::load(x);
    for (i = Vec<C>::kWidth; i + Vec<C>::kWidth <= n; i += Vec<C>::kWidth)
      lanes = f(lanes, Vec<C>::load(x + i));
    for (int k = 0; k < Vec<C>::kWidth; ++k) all = f(all, lanes[k]);
  }
  for (; i < n; ++i) all = f(all, x[i]);
  return static_cast<double>(all);
}

/// Of a dense run of at least one element.
template <class T>
double fold_run(Fold fold, const T* x, int64_t n) {
  using C = Compute<T>;
  if (fold == Fold::sum) return sum_run(x, x, 0, n, [](Vec<C> v, Vec<C>) { return v; });
  RunReader<T> read;
  double all = 0;
  for_runs<T>(n, [&](int64_t i, int64_t count) {
    const C* run = read(x + i, count);
    const double one = fold == Fold::max ? extreme_of<functor::Maximum>(run, count)
                                         : extreme_of<functor::Minimum>(run, count);
    if (i == 0) {
      all = one;
    } else {
      all = fold == Fold::max ? functor::Maximum{}(all, one) : functor::Minimum{}(all, one);
    }
  });
  return all;
}

double join(Fold fold, double a, double b) {
  if (fold == Fold::sum) return a + b;
  return fold == Fold::max ? functor::Maximum{}(a, b) : functor::Minimum{}(a, b);
}

std::shared_ptr<ReduceState> prepare(const FusedReduceParams& p, const Specs& s) {
  const TensorSpec whole = reduced_tensor(*p.program, s.in);
  const Specs inside{s.in, {&whole, 1}};
  const Loop loop = loop_of(inside);
  Places places(*p.program, inside, loop, false);
  const Pieces pieces(loop, places.most);
  auto state = std::make_shared<ReduceState>(pieces, std::move(places));
  prepare_pieces(*p.program, inside, *state);
  state->rows = *rows_of(whole.shape, p.reduce.axes);
  state->workspace_bytes = static_cast<size_t>(state->rows.count + pieces.count) * sizeof(double);
  return state;
}

Support supports(const FusedReduceParams& p, const Specs& s) {
  const TensorSpec whole = reduced_tensor(*p.program, s.in);
  if (whole.numel() == 0) return Support::no("there is nothing to reduce");
  if (!rows_of(whole.shape, p.reduce.axes)) return Support::no("the axes are not the last ones");
  const Specs inside{s.in, {&whole, 1}};
  const Loop loop = loop_of(inside);
  const Pieces pieces(loop, Places(*p.program, inside, loop, false).most);
  if (pieces.count > 1 && pieces.elements() < kFewElements)
    return Support::no(fmt::format("its operands have pieces of {} elements in common, too few",
                                   pieces.elements()));
  return Support::yes();
}

/// Of so few columns a row is summed faster without vectors.
constexpr int64_t kFewColumns = 8;

template <class T>
double fold_row(Fold fold, const T* x, int64_t n) {
  if (fold != Fold::sum || n > kFewColumns) return fold_run(fold, x, n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(static_cast<Compute<T>>(x[i]));
  return sum;
}

template <class T>
void run_as(const FusedReduceParams& p, const ReduceState& state, const Call& c) {
  auto* const parts = static_cast<double*>(c.workspace);
  T* const out = c.out[0].as<T>();
  const auto result = c.in.size() + static_cast<size_t>(p.program->outputs[0]);
  const int64_t columns = state.rows.columns;
  const Pieces& pieces = state.pieces;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / pieces.elements());
  parallel_for(pieces.count, grain, [&](int64_t begin, int64_t end) {
    PieceBuffer buffer(state, c);
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t n = run_piece(*p.program, state, c, piece, buffer.data);
      const auto* x = reinterpret_cast<const T*>(buffer.data[result]);
      const int64_t first = pieces.offsets(piece)[0];
      int64_t row = first / columns;
      for (int64_t at = row * columns - first; at < n; at += columns, ++row) {
        const int64_t from = std::max<int64_t>(at, 0);
        const int64_t here = std::min(at + columns, n) - from;
        const double all = fold_row(p.fold, x + from, here);
        if (here == columns) {
          out[row] = static_cast<T>(all);
        } else {
          parts[row + piece] = all;
        }
      }
    }
  });
  // A row of several pieces is joined for the last of them.
  parallel_for(pieces.count, kElementGrain / 8, [&](int64_t begin, int64_t end) {
    for (int64_t last = begin; last < end; ++last) {
      const int64_t first = pieces.offsets(last)[0];
      const int64_t row = first / columns;
      if (row * columns == first || state.piece_of((row + 1) * columns - 1) != last) continue;
      int64_t piece = state.piece_of(row * columns);
      double all = parts[row + piece];
      while (++piece <= last) all = join(p.fold, all, parts[row + piece]);
      out[row] = static_cast<T>(all);
    }
  });
}

void run(const FusedReduceParams& p, const ReduceState& state, const Call& c) {
  switch_float(c.out[0].dtype(), "fused_reduce", [&]<class T>() { run_as<T>(p, state, c); });
}

}  // namespace

Kernel fused_reduce_tiled_kernel() { return kernel<supports, prepare, run>("tiled"); }

}  // namespace mica
