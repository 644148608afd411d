#pragma once

namespace mica {

/// Whether files compiled for AVX-512 (cpu_avx512.cpp) are part of this build.
#if defined(__x86_64__)
inline constexpr bool kAvx512Files = true;
#else
inline constexpr bool kAvx512Files = false;
#endif

/// Whether the processor can run them: it is x86-64-v4.
bool has_avx512();
/// Whether its wide vectors are worth more than AVX2's in products, too: Intel's and, from Zen 5
/// on, AMD's. Zen 4 takes them in two halves, and there are fewer of them to fit a size.
bool has_full_rate_avx512();
/// Whether it multiplies bf16 (AVX512-BF16).
bool has_bf16_products();

}  // namespace mica
