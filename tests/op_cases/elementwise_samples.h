#pragma once

// Samples that every elementwise operator takes.
#include <algorithm>
#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {

using Call1 = std::function<Tensor(const Tensor&)>;
using Call2 = std::function<Tensor(const Tensor&, const Tensor&)>;
using Double1 = std::function<double(double)>;
using Double2 = std::function<double(double, double)>;

/// Where a function of one operand is tested: inside its domain, off its kinks.
struct Range {
  double low = -2;
  double high = 2;
  double away = 0.1;  ///< from zero
};

double broadcast(const HostArray& a, const Shape& shape, int64_t i);
std::function<std::vector<HostArray>(const HostArgs&)> unary_oracle(const Double1& f);
std::function<std::vector<HostArray>(const HostArgs&)> binary_oracle(const Double2& f);

std::vector<Sample> unary_samples(const Call1& call, const Double1& f, Range range = {});
/// Integers in [low, high]; functions of floats give f32.
Sample unary_integers(const Call1& call, const Double1& f, double low = 0, double high = 9);

/// `away` keeps the second operand from zero.
std::vector<Sample> binary_samples(const Call2& call, const Double2& f, double away = 0,
                                   Range range = {.away = 0});
Sample integers(const Call2& call, const Double2& f);
Sample booleans(const Call2& call, const Double2& f);
/// Two dtypes meet: the narrower is cast.
Sample mixed(const Call2& call, const Double2& f);
std::vector<BadCall> binary_bad(const char* op, const Call2& call);
BadCall refuses(const char* op, DType dtype, const char* expected, const Call1& call);

}  // namespace mica::cases
