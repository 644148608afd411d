#include <cstring>

#include "mica/core/switch_bytes.h"
#include "mica/op/kernel.h"
#include "mica/ops/fill/fill.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

/// Word is any type of the element's size; outputs start on a 16-byte boundary.
template <class Word>
__global__ void __launch_bounds__(kThreads) fill(Word* out, int64_t n, Word value) {
  constexpr int kWidth = kVec16<Word>;
  Vec<Word, kWidth> values;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) values.v[e] = value;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t whole = n / kWidth;
  for (int64_t i = first; i < whole; i += step) store_vec<kWidth>(out + i * kWidth, values);
  if (first < n - whole * kWidth) out[whole * kWidth + first] = value;
}

Support supports(const FullParams&, const Specs& s) {
  return s.out[0].aligned ? Support::yes()
                          : Support::no("the output does not start on a 16-byte boundary");
}

void run(const FullParams& p, const Call& c) {
  const ElementWords words = element_words(p.value, p.dtype);
  const int64_t n = c.out[0].numel();
  switch_words(size_of(p.dtype), [&]<class Word>() {
    Word value;
    std::memcpy(&value, words.data(), sizeof value);
    c.encoder->launch(fill<Word>, grid_over(n, kThreads * kVec16<Word>), kThreads, 0,
                      c.out[0].as<Word>(), n, value);
  });
}

}  // namespace

KernelList full_cuda_kernels() { return {kernel<supports, run>("vectorized")}; }

}  // namespace mica
