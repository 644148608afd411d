// The one list of operators. Adding an op adds a line here.
//   MICA_OP(name)           `const OpDef& name_op()` in its room, and
//                           `KernelList name_cuda_kernels()` in a .cu or cuda_*.cpp file there
//   MICA_VIEW_OP(name)      an op that runs no kernel: its output shares its input's memory
//   MICA_FUNCTIONS(name)    `Functions name_functions()` in a room: what users call, see
//   op/function.h MICA_ONEDNN_KERNEL(op)  `Kernel op_onednn_kernel()` in the room's cpu_onednn.cpp,
//   tried first
//   MICA_CARRYING(op)       an anchor: `KernelList op_carrying_kernels()` are kernels of `anchored`
//                           that compute it with a program, `op_carrying_cuda_kernels()` those on
//                           CUDA, best first
//   MICA_ONEDNN_CARRYING(op)  likewise `Kernel op_carrying_onednn_kernel()`
//   MICA_PATTERNS(name)     `Patterns name_patterns()` in a room: calls that one of its ops joins,
//                           see op/pattern.h; what is joined first comes first
// Rooms of many ops have a list of their own, which is included here.
// Who includes this file defines the ones it wants; the others mean nothing to it.
#ifndef MICA_OP
#define MICA_OP(name)
#endif
#ifndef MICA_VIEW_OP
#define MICA_VIEW_OP(name)
#endif
#ifndef MICA_FUNCTIONS
#define MICA_FUNCTIONS(name)
#endif
#ifndef MICA_ONEDNN_KERNEL
#define MICA_ONEDNN_KERNEL(name)
#endif
#ifndef MICA_CARRYING
#define MICA_CARRYING(name)
#endif
#ifndef MICA_ONEDNN_CARRYING
#define MICA_ONEDNN_CARRYING(name)
#endif
#ifndef MICA_PATTERNS
#define MICA_PATTERNS(name)
#endif

// shape
MICA_VIEW_OP(reshape)
MICA_VIEW_OP(permute)
MICA_VIEW_OP(expand)
MICA_VIEW_OP(slice)
MICA_OP(slice_grad)
MICA_VIEW_OP(diagonal)
MICA_OP(diagonal_grad)
MICA_OP(concat)
MICA_OP(flip)
MICA_OP(roll)
MICA_OP(pad)
MICA_OP(pad_grad)
MICA_OP(tril)
MICA_OP(triu)
MICA_OP(copy)
MICA_OP(copy_into)
MICA_OP(full)

// elementwise
MICA_OP(add)
MICA_OP(sub)
MICA_OP(mul)
MICA_OP(div)
MICA_OP(neg)
MICA_OP(relu)
MICA_OP(relu_grad)
MICA_OP(hardswish)
MICA_OP(hardswish_grad)
MICA_OP(floor_divide)
MICA_OP(remainder)
MICA_OP(pow)
MICA_OP(minimum)
MICA_OP(maximum)
MICA_OP(atan2)
MICA_OP(lerp)
MICA_OP(where)
MICA_OP(clamp)
#define MICA_WIDE_OP(name, functor) MICA_OP(name)
#include "mica/ops/math/wide_ops.h"
MICA_OP(tanh_grad)
MICA_OP(sigmoid_grad)
MICA_OP(square)
MICA_OP(abs)
MICA_OP(sign)
MICA_OP(floor)
MICA_OP(ceil)
MICA_OP(trunc)
MICA_OP(round)
MICA_OP(eq)
MICA_OP(ne)
MICA_OP(lt)
MICA_OP(le)
MICA_OP(gt)
MICA_OP(ge)
MICA_OP(logical_and)
MICA_OP(logical_or)
MICA_OP(logical_xor)
MICA_OP(logical_not)
MICA_OP(isnan)
MICA_OP(isinf)
MICA_OP(isfinite)
MICA_OP(bitwise_and)
MICA_OP(bitwise_or)
MICA_OP(bitwise_xor)
MICA_OP(bitwise_not)
MICA_OP(left_shift)
MICA_OP(right_shift)
MICA_OP(leaky_relu)
MICA_OP(leaky_relu_grad)
MICA_OP(elu)
MICA_OP(elu_grad)
MICA_OP(selu)
MICA_OP(selu_grad)
MICA_OP(gelu)
MICA_OP(gelu_grad)
MICA_OP(gelu_tanh)
MICA_OP(gelu_tanh_grad)
MICA_OP(silu)
MICA_OP(silu_grad)
MICA_OP(softplus)
MICA_OP(softplus_grad)
MICA_OP(hardsigmoid)
MICA_OP(hardsigmoid_grad)
MICA_OP(mish)
MICA_OP(mish_grad)
MICA_OP(prelu)
MICA_OP(fused)
MICA_OP(fused_reduce)
MICA_OP(anchored)

// reduction, scans, order
MICA_OP(sum)
MICA_OP(prod)
MICA_OP(max)
MICA_OP(min)
MICA_OP(var)
MICA_OP(std)
MICA_OP(norm)
MICA_OP(logsumexp)
MICA_OP(any)
MICA_OP(all)
MICA_OP(count_nonzero)
MICA_OP(argmax)
MICA_OP(argmin)
MICA_OP(cumsum)
MICA_OP(cumprod)
MICA_OP(linear_scan)
MICA_OP(sort)
MICA_OP(topk)
MICA_OP(unique)
MICA_OP(searchsorted)

// linear algebra
MICA_OP(matmul)
MICA_OP(linear)
MICA_OP(linear_wgrad)

// convolution and pooling
MICA_OP(conv2d)
MICA_OP(conv2d_dgrad)
MICA_OP(conv2d_wgrad)
MICA_OP(conv3d)
MICA_OP(conv3d_dgrad)
MICA_OP(conv3d_wgrad)
MICA_OP(max_pool2d)
MICA_OP(max_pool2d_grad)
MICA_OP(conv2d_pool)
MICA_OP(conv2d_pool_dgrad)
MICA_OP(conv2d_pool_wgrad)
MICA_OP(adaptive_max_pool2d)
MICA_OP(avg_pool2d)
MICA_OP(avg_pool2d_grad)
MICA_OP(adaptive_avg_pool2d)
MICA_OP(adaptive_avg_pool2d_grad)

// sampling
MICA_OP(upsample2d)
MICA_OP(upsample2d_grad)
MICA_OP(grid_sample)
MICA_OP(grid_sample_grad)
MICA_OP(im2col)
MICA_OP(col2im)

// normalisation and loss
MICA_OP(batch_norm)
MICA_OP(batch_norm_grad)
MICA_OP(cross_entropy)
MICA_OP(cross_entropy_grad)
MICA_OP(cross_entropy_with_grad)
MICA_OP(linear_cross_entropy)
MICA_OP(linear_cross_entropy_dgrad)
MICA_OP(softmax)
MICA_OP(softmax_grad)
MICA_OP(log_softmax)
MICA_OP(log_softmax_grad)
MICA_OP(layer_norm)
MICA_OP(layer_norm_grad)
MICA_OP(rms_norm)
MICA_OP(rms_norm_grad)
MICA_OP(group_norm)
MICA_OP(group_norm_grad)
MICA_OP(binary_cross_entropy)
MICA_OP(binary_cross_entropy_with_logits)

// indexing
MICA_OP(gather)
MICA_OP(scatter)
MICA_OP(scatter_add)
MICA_OP(index_select)
MICA_OP(index_add)
MICA_OP(index)
MICA_OP(index_put)
MICA_OP(nonzero)
MICA_OP(nonzero_ends)
MICA_OP(embedding)
MICA_OP(embedding_grad)
MICA_OP(one_hot)

// random
MICA_OP(rng_take)
MICA_OP(uniform)
MICA_OP(normal)
MICA_OP(randint)
MICA_OP(dropout)

// updates
MICA_OP(schedule_lr)
MICA_OP(sgd_update)
MICA_OP(adam_update)
MICA_OP(rmsprop_update)
MICA_OP(adagrad_update)
MICA_OP(linear_sgd_update)
MICA_OP(linear_adam_update)
MICA_OP(linear_rmsprop_update)
MICA_OP(linear_adagrad_update)
MICA_OP(total_norm)
MICA_OP(clip_by_norm)
MICA_OP(clip_by_value)

// what users call
MICA_FUNCTIONS(elementwise)
MICA_FUNCTIONS(elementwise_composition)
MICA_FUNCTIONS(where)
MICA_FUNCTIONS(nan_to_num)
MICA_FUNCTIONS(exponential)
MICA_FUNCTIONS(trigonometric)
MICA_FUNCTIONS(whole_number)
MICA_FUNCTIONS(compare)
MICA_FUNCTIONS(close)
MICA_FUNCTIONS(activation)
MICA_FUNCTIONS(activation_composition)
MICA_FUNCTIONS(hardswish)
MICA_FUNCTIONS(reduce)
MICA_FUNCTIONS(scan)
MICA_FUNCTIONS(diff)
MICA_FUNCTIONS(sort)
MICA_FUNCTIONS(median)
MICA_FUNCTIONS(matmul)
MICA_FUNCTIONS(products)
MICA_FUNCTIONS(einsum)
MICA_FUNCTIONS(triangle)
MICA_FUNCTIONS(conv2d)
MICA_FUNCTIONS(conv3d)
MICA_FUNCTIONS(conv1d)
MICA_FUNCTIONS(conv_transpose)
MICA_FUNCTIONS(max_pool2d)
MICA_FUNCTIONS(avg_pool2d)
MICA_FUNCTIONS(pool)
MICA_FUNCTIONS(upsample)
MICA_FUNCTIONS(grid_sample)
MICA_FUNCTIONS(affine_grid)
MICA_FUNCTIONS(im2col)
MICA_FUNCTIONS(pixel_shuffle)
MICA_FUNCTIONS(softmax)
MICA_FUNCTIONS(dropout)
MICA_FUNCTIONS(batch_norm)
MICA_FUNCTIONS(group_norm)
MICA_FUNCTIONS(instance_norm)
MICA_FUNCTIONS(local_response_norm)
MICA_FUNCTIONS(layer_norm)
MICA_FUNCTIONS(cross_entropy)
MICA_FUNCTIONS(loss)
MICA_FUNCTIONS(view)
MICA_FUNCTIONS(rearrange)
MICA_FUNCTIONS(concat)
MICA_FUNCTIONS(pad)
MICA_FUNCTIONS(repeat)
MICA_FUNCTIONS(flip)
MICA_FUNCTIONS(gather)
MICA_FUNCTIONS(index)
MICA_FUNCTIONS(masked_scatter)
MICA_FUNCTIONS(embedding)
MICA_FUNCTIONS(multinomial)
MICA_FUNCTIONS(random)
MICA_FUNCTIONS(fill)
MICA_FUNCTIONS(copy)
MICA_FUNCTIONS(attention)
MICA_FUNCTIONS(likelihood)
MICA_FUNCTIONS(normalize)
MICA_FUNCTIONS(channel_dropout)

// anchors
MICA_CARRYING(batch_norm)
MICA_CARRYING(conv2d)
MICA_CARRYING(matmul)

// joined ops
MICA_PATTERNS(conv2d_pool)
MICA_PATTERNS(dropout)
MICA_PATTERNS(cross_entropy)
MICA_PATTERNS(batch_norm)

// oneDNN
MICA_ONEDNN_CARRYING(conv2d)
MICA_ONEDNN_CARRYING(linear)
MICA_ONEDNN_KERNEL(matmul)
MICA_ONEDNN_KERNEL(linear)
MICA_ONEDNN_KERNEL(conv2d)
MICA_ONEDNN_KERNEL(conv2d_dgrad)
MICA_ONEDNN_KERNEL(conv2d_wgrad)
MICA_ONEDNN_KERNEL(conv3d)
MICA_ONEDNN_KERNEL(conv3d_dgrad)
MICA_ONEDNN_KERNEL(conv3d_wgrad)

#undef MICA_OP
#undef MICA_VIEW_OP
#undef MICA_FUNCTIONS
#undef MICA_ONEDNN_KERNEL
#undef MICA_CARRYING
#undef MICA_ONEDNN_CARRYING
#undef MICA_PATTERNS
