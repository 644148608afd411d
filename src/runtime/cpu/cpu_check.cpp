// Compiled for plain x86-64, so that the message appears instead of an illegal instruction.
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

bool has_full_rate_avx512() {
  static const bool has = has_avx512() && __builtin_cpu_is("intel");
  return has;
}

}  // namespace mica
