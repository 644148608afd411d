#pragma once

// Functions of values that have some ten bits, as TF32, f16 and bf16 do: included before the
// functors, it lets them take the GPU's fast ones. Errors are below 2^-20 of the result, or of 1.
__device__ inline float mica_expf(float x) { return __expf(x); }
__device__ inline float mica_tanhf(float x) {
  return 1.0F - __fdividef(2.0F, 1.0F + __expf(2.0F * x));
}
/// By formula 7.1.26 of Abramowitz and Stegun.
__device__ inline float mica_erff(float x) {
  const float t = __fdividef(1.0F, 1.0F + 0.3275911F * fabsf(x));
  float sum = 1.061405429F;
  sum = sum * t - 1.453152027F;
  sum = sum * t + 1.421413741F;
  sum = sum * t - 0.284496736F;
  sum = sum * t + 0.254829592F;
  return copysignf(1.0F - sum * t * __expf(-x * x), x);
}
#define expf mica_expf
#define tanhf mica_tanhf
#define erff mica_erff
