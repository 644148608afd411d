// On CUDA both layers are computed as they are defined, in f32.
#include "mica/ops/quantized/kernels.h"

namespace mica {

KernelList quantized_conv2d_cuda_kernels() { return {quantized_conv2d_composed_kernel()}; }
KernelList quantized_linear_cuda_kernels() { return {quantized_linear_composed_kernel()}; }

}  // namespace mica
