#pragma once

#include <cstdint>
#include <span>

namespace mica {

/// What a layer applies to its result, of what kernels compute beside a product, a convolution or a
/// normalisation; gelu is the form with erf.
enum class Activation : int64_t { none, relu, gelu, gelu_tanh, silu, hardswish, tanh, sigmoid };

inline constexpr const char* kActivationNames[] = {"none", "relu",      "gelu", "gelu_tanh",
                                                   "silu", "hardswish", "tanh", "sigmoid"};
constexpr std::span<const char* const> names_of(Activation) { return kActivationNames; }

}  // namespace mica
