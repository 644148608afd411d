// Compiled for plain x86-64, so that the message appears instead of an illegal instruction.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <stdexcept>

#include "mica/core/error.h"
#include "mica/runtime/cpu/cpu_features.h"
#include "mica/runtime/cpu/cpu_runtime.h"

namespace mica {

void check_cpu() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi2"))
    throw Unsupported(
        "mica needs a processor with AVX2, FMA and BMI2 (x86-64-v3); this one has not");
}

bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512cd") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
}

bool has_bf16_products() {
  static const bool has = has_avx512() && __builtin_cpu_supports("avx512bf16");
  return has;
}

namespace {

bool is_zen5_or_later() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__builtin_cpu_is("amd") || __get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  const unsigned family = (eax >> 8 & 0xF) + (eax >> 20 & 0xFF);
  return family >= 0x1A;
#else
  return false;
#endif
}

}  // namespace

bool has_full_rate_avx512() {
  static const bool has = has_avx512() && (__builtin_cpu_is("intel") || is_zen5_or_later());
  return has;
}

}  // namespace mica
