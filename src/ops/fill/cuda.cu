#include <cstring>

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

template <class Word, class T>
void launch(const Call& c, T value) {
  static_assert(sizeof(Word) == sizeof(T));
  Word word;
  std::memcpy(&word, &value, sizeof word);
  const int64_t n = c.out[0].numel();
  const unsigned grid = grid_over(n, kThreads * kVec16<Word>);
  c.encoder->launch(fill<Word>, grid, kThreads, 0, c.out[0].as<Word>(), n, word);
}

Support supports(const FullParams&, const Specs& s) {
  return s.out[0].aligned ? Support::yes()
                          : Support::no("the output does not start on a 16-byte boundary");
}

void run(const FullParams& p, const Call& c) {
  switch (p.dtype) {
    case DType::f64:
      return launch<uint64_t>(c, p.value);
    case DType::f32:
      return launch<uint32_t>(c, static_cast<float>(p.value));
    case DType::f16:
      return launch<uint16_t>(c, __float2half_rn(static_cast<float>(p.value)));
    case DType::bf16:
      return launch<uint16_t>(c, __float2bfloat16_rn(static_cast<float>(p.value)));
    case DType::i64:
      return launch<uint64_t>(c, static_cast<int64_t>(p.value));
    case DType::i32:
      return launch<uint32_t>(c, static_cast<int32_t>(p.value));
    case DType::u8:
      return launch<uint8_t>(c, static_cast<uint8_t>(p.value));
    case DType::boolean:
      return launch<uint8_t>(c, static_cast<uint8_t>(p.value != 0));
  }
}

}  // namespace

KernelList full_cuda_kernels() { return {kernel<supports, run>("vectorized")}; }

}  // namespace mica
