#pragma once

#include <cstdint>

#include "mica/core/philox.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace mica {

#if defined(__AVX2__)

/// The words of eight blocks from `block` on, in order: `philox` eight times over. Each counter
/// word is the low half of a 64-bit lane, where vpmuludq takes it; what the high halves hold does
/// not matter.
inline void philox_8_blocks(uint64_t seed, uint64_t block, uint32_t* words) {
  const auto broadcast = [](uint64_t v) { return _mm256_set1_epi64x(static_cast<int64_t>(v)); };
  const __m256i multiplier_a = broadcast(0xD2511F53);
  const __m256i multiplier_b = broadcast(0xCD9E8D57);
  auto k0 = static_cast<uint32_t>(seed);
  auto k1 = static_cast<uint32_t>(seed >> 32);
  __m256i c[2][4];  // [half of the blocks][word]
  for (int h = 0; h < 2; ++h) {
    const __m256i from = broadcast(block + static_cast<uint64_t>(4 * h));
    c[h][0] = _mm256_add_epi64(from, _mm256_setr_epi64x(0, 1, 2, 3));
    c[h][1] = _mm256_srli_epi64(c[h][0], 32);
    c[h][2] = c[h][3] = _mm256_setzero_si256();
  }
  for (int round = 0; round < 10; ++round) {
    for (auto& w : c) {
      const __m256i a = _mm256_mul_epu32(w[0], multiplier_a);
      const __m256i b = _mm256_mul_epu32(w[2], multiplier_b);
      w[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(b, 32), w[1]), broadcast(k0));
      w[2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), w[3]), broadcast(k1));
      w[1] = b;
      w[3] = a;
    }
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  for (int h = 0; h < 2; ++h) {
    const auto pair = [](__m256i low, __m256i high) {
      return _mm256_blend_epi32(low, _mm256_slli_epi64(high, 32), 0b10101010);
    };
    const __m256i first = pair(c[h][0], c[h][1]);
    const __m256i second = pair(c[h][2], c[h][3]);
    const __m256i even = _mm256_unpacklo_epi64(first, second);  // blocks 0 and 2
    const __m256i odd = _mm256_unpackhi_epi64(first, second);   // blocks 1 and 3
    auto* out = reinterpret_cast<__m256i*>(words + 16 * h);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

#else

inline void philox_8_blocks(uint64_t seed, uint64_t block, uint32_t* words) {
  for (uint64_t k = 0; k < 8; ++k) {
    const Philox4 four = philox(seed, block + k);
    for (int i = 0; i < 4; ++i) words[4 * k + static_cast<uint64_t>(i)] = four.v[i];
  }
}

#endif

}  // namespace mica
