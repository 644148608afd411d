#pragma once

#include "mica/ops/conv/cpu_onednn.h"
#include "mica/ops/conv2d/conv2d.h"

// Included only by files that are built with oneDNN.
namespace mica {

/// The forward convolution of a call whose first inputs are x, weight and bias.
onednn::Convolution conv2d_onednn_problem(const Conv2dParams& params, const Specs& specs);
/// How an operand of a program after it lies beside its result; none where the library cannot take
/// it.
std::optional<onednn::memory::desc> conv2d_onednn_operand(const Conv2dParams& params,
                                                          const Specs& specs,
                                                          const TensorSpec& operand);
Support supports_conv2d_onednn(const Conv2dParams& params, const Specs& specs);

}  // namespace mica
