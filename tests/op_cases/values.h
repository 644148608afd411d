#pragma once

#include <optional>

#include "tests/op_cases/op_case.h"

namespace mica::cases {

/// How the inputs lie in memory.
enum class Layout { contiguous, strided, channels_last };
const char* name_of(Layout layout);

/// The nearest value that `dtype` holds.
double rounded(double value, DType dtype);

/// The sample's inputs in double, rounded to `dtype`; the same at every call.
HostArgs host_inputs(const Sample& sample, DType dtype);

/// The inputs on a device. `strided` ones lie with gaps, off 16-byte boundaries and with their
/// first two axes exchanged; only 4-d ones can be channels_last.
Args device_inputs(const Sample& sample, const HostArgs& host, DType dtype, Device device,
                   Layout layout, bool requires_grad = false);

Tensor from_host(const HostArray& array, DType dtype, Device device,
                 Layout layout = Layout::contiguous);
HostArray to_host(const Tensor& tensor);

/// Random cotangents, one for each tensor, away from zero and rounded to its dtype.
std::vector<HostArray> cotangents_for(const Tensors& outputs, DType dtype, uint64_t seed);

/// What differs between two tensors, with the worst index; nothing when the error stays within
/// `tolerance`, relative to the value plus the root mean square of its tensor plus `noise`, the
/// size of numbers that are zero but for rounding.
std::optional<std::string> difference(const HostArray& got, const HostArray& expected, DType dtype,
                                      double tolerance, double noise = 1e-300);
/// The same for equality bit by bit.
std::optional<std::string> bit_difference(const Tensor& a, const Tensor& b);

}  // namespace mica::cases
