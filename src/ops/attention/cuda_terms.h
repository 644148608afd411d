#pragma once

#include "mica/ops/attention/geometry.h"
#if !defined(__CUDACC_RTC__)
#include "mica/ops/attention/problem.h"
#endif

// What our kernels of attention are given beside the problem and its operands. Run-time compilation
// takes this file as it is.
namespace mica::attention {

/// Pointers of what is not an operand of a product.
struct Terms {
  const void* mask = nullptr;
  const int32_t* lengths = nullptr;
  const int64_t* counter = nullptr;
};
struct Dropping {
  float threshold;
  double kept;
};
/// Of a query: the logarithm to base 2 of its sum of exponentials, infinity where it looks at
/// nothing, and the sum of dy · y less the cotangent of that sum.
struct QueryTerms {
  float lse;
  float delta;
};

#if !defined(__CUDACC_RTC__)
inline Terms terms_of(const Call& call, const AttentionInputs& at) {
  return {call.in[at.mask].data, call.in[at.lengths].as<const int32_t>(),
          call.in[at.counter].as<const int64_t>()};
}
inline Dropping dropping_of(const AttentionProblem& p) {
  return {static_cast<float>(p.dropout), 1 / (1 - p.dropout)};
}
#endif

}  // namespace mica::attention
