#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// cuDNN's attention: f16 and bf16.
Kernel attention_cudnn_kernel();
Kernel attention_grad_cudnn_kernel();
/// Keys split over the blocks of a cluster: f32, f16 and bf16, up to four queries. Forward alone.
Kernel attention_split_keys_kernel();
/// Tiles of scores in registers by the tensor cores of compute capability 9.0: f16 and bf16, heads
/// of up to 128.
Kernel attention_wgmma_kernel();
Kernel attention_grad_wgmma_kernel();
/// Tiles of scores in registers, by tensor cores: f32, f16 and bf16, heads of up to 128.
Kernel attention_tiles_kernel();
Kernel attention_grad_tiles_kernel();
/// A warp for a query, or for a key: every call, every dtype.
Kernel attention_direct_kernel();
Kernel attention_grad_direct_kernel();

}  // namespace mica
