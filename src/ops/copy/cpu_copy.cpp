#include "mica/ops/copy/cpu_copy.h"

#include <cstring>

#include "mica/ops/elementwise/cpu_loop.h"

namespace mica {
namespace {

/// Copies n elements, `to_step` and `from_step` apart.
using CopyRun = void (*)(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t n);

template <class D, class S>
void copy_run(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t n) {
  auto* out = static_cast<D*>(to);
  const auto* in = static_cast<const S*>(from);
  if (to_step != 1 || from_step != 1) {
    for (int64_t i = 0; i < n; ++i) out[i * to_step] = static_cast<D>(in[i * from_step]);
  } else if constexpr (std::is_same_v<D, S>) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(D));
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<D>(in[i]);
  }
}

/// One small function per pair of dtypes, and one loop for all: 64 loops would take long to
/// compile.
CopyRun choose_run(DType to, DType from) {
  return switch_all(to, [&]<class D>() {
    return switch_all(from, []<class S>() -> CopyRun { return copy_run<D, S>; });
  });
}

}  // namespace

void copy_elements(const Arg& to, const Arg& source) {
  const StridedLoop<2> loop(to.shape(),
                            {to.strides(), broadcast_strides(*source.spec, to.shape())});
  const CopyRun run = choose_run(to.dtype(), source.dtype());
  const auto to_size = static_cast<int64_t>(size_of(to.dtype()));
  const auto from_size = static_cast<int64_t>(size_of(source.dtype()));
  loop.each_run([&](const std::array<int64_t, 2>& at, int64_t n) {
    run(to.as<std::byte>() + at[0] * to_size, loop.inner_stride(0),
        source.as<std::byte>() + at[1] * from_size, loop.inner_stride(1), n);
  });
}

}  // namespace mica
