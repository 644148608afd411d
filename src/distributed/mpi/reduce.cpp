#include "mica/distributed/mpi/reduce.h"

#include <algorithm>

#include "mica/core/dtype_switch.h"

namespace mica::distributed {
namespace {

template <class T, class F>
void fold(const T* parts, int ranks, int64_t n, ReduceOp op, T* out, F&& f) {
  using A = Compute<T>;
  constexpr int64_t kPiece = 1024;  // stays in the cache while all ranks are added to it
  A sums[kPiece];
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t size = std::min(kPiece, n - begin);
    for (int64_t i = 0; i < size; ++i) sums[i] = static_cast<A>(parts[begin + i]);
    for (int r = 1; r < ranks; ++r) {
      const T* part = parts + r * n + begin;
      for (int64_t i = 0; i < size; ++i) sums[i] = f(sums[i], static_cast<A>(part[i]));
    }
    if (op == ReduceOp::avg)
      for (int64_t i = 0; i < size; ++i) sums[i] = static_cast<A>(sums[i] / static_cast<A>(ranks));
    for (int64_t i = 0; i < size; ++i) out[begin + i] = static_cast<T>(sums[i]);
  }
}

}  // namespace

void reduce_parts(const void* parts, int ranks, int64_t n, DType dtype, ReduceOp op, void* out) {
  switch_computed(dtype, "all_reduce", [&]<class T>() {
    using A = Compute<T>;
    const auto run = [&](auto f) {
      fold(static_cast<const T*>(parts), ranks, n, op, static_cast<T*>(out), f);
    };
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        return run([](A a, A b) { return static_cast<A>(a + b); });
      case ReduceOp::max:
        // A NaN stays one.
        return run([](A a, A b) { return b > a || b != b ? b : a; });
      case ReduceOp::min:
        return run([](A a, A b) { return b < a || b != b ? b : a; });
      case ReduceOp::product:
        return run([](A a, A b) { return static_cast<A>(a * b); });
    }
  });
}

}  // namespace mica::distributed
