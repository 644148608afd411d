#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/softmax/softmax.h"

namespace mica {

KernelList softmax_cpu_kernels();
KernelList log_softmax_cpu_kernels();
KernelList softmax_grad_cpu_kernels();
KernelList log_softmax_grad_cpu_kernels();

Kernel softmax_reference_kernel();
Kernel log_softmax_reference_kernel();
Kernel softmax_grad_reference_kernel();
Kernel log_softmax_grad_reference_kernel();

}  // namespace mica
