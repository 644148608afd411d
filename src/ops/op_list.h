// The one list of operators. Adding an op adds a line here.
//   MICA_OP(name)           `const OpDef& name_op()` in its room, and
//                           `KernelList name_cuda_kernels()` in a .cu or cuda_*.cpp file there
//   MICA_CPU_OP(name)       the same for an op that has no CUDA kernels yet
//   MICA_VIEW_OP(name)      an op that runs no kernel: its output shares its input's memory
//   MICA_COMPOSITE(name)    a public function made of other ops: listed and tested, no OpDef
//   MICA_ONEDNN_KERNEL(op)  `Kernel op_onednn_kernel()` in the room's cpu_onednn.cpp, tried first
// Who includes this file defines the ones it wants; the others mean nothing to it.
#ifndef MICA_OP
#define MICA_OP(name)
#endif
#ifndef MICA_CPU_OP
#define MICA_CPU_OP(name)
#endif
#ifndef MICA_VIEW_OP
#define MICA_VIEW_OP(name)
#endif
#ifndef MICA_COMPOSITE
#define MICA_COMPOSITE(name)
#endif
#ifndef MICA_ONEDNN_KERNEL
#define MICA_ONEDNN_KERNEL(name)
#endif

// shape
MICA_VIEW_OP(reshape)
MICA_VIEW_OP(permute)
MICA_VIEW_OP(expand)
MICA_VIEW_OP(slice)
MICA_CPU_OP(slice_grad)
MICA_VIEW_OP(diagonal)
MICA_CPU_OP(diagonal_grad)
MICA_COMPOSITE(flatten)
MICA_COMPOSITE(squeeze)
MICA_COMPOSITE(unsqueeze)
MICA_COMPOSITE(transpose)
MICA_COMPOSITE(swapaxes)
MICA_COMPOSITE(movedim)
MICA_COMPOSITE(narrow)
MICA_COMPOSITE(select)
MICA_CPU_OP(concat)
MICA_COMPOSITE(stack)
MICA_COMPOSITE(split)
MICA_COMPOSITE(chunk)
MICA_CPU_OP(flip)
MICA_CPU_OP(roll)
MICA_CPU_OP(pad)
MICA_CPU_OP(pad_grad)
MICA_COMPOSITE(tile)
MICA_COMPOSITE(repeat)
MICA_COMPOSITE(repeat_interleave)
MICA_COMPOSITE(meshgrid)
MICA_CPU_OP(tril)
MICA_CPU_OP(triu)
MICA_OP(copy)
MICA_OP(copy_into)
MICA_OP(full)
MICA_COMPOSITE(full_like)
MICA_COMPOSITE(arange)
MICA_COMPOSITE(linspace)
MICA_COMPOSITE(eye)

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
MICA_OP(exp)
MICA_OP(exp2)
MICA_OP(expm1)
MICA_OP(log)
MICA_OP(log2)
MICA_OP(log10)
MICA_OP(log1p)
MICA_OP(sqrt)
MICA_OP(sin)
MICA_OP(cos)
MICA_OP(tan)
MICA_OP(asin)
MICA_OP(acos)
MICA_OP(atan)
MICA_OP(sinh)
MICA_OP(cosh)
MICA_OP(asinh)
MICA_OP(acosh)
MICA_OP(atanh)
MICA_OP(erf)
MICA_OP(tanh)
MICA_OP(tanh_grad)
MICA_OP(sigmoid)
MICA_OP(sigmoid_grad)
MICA_OP(rsqrt)
MICA_OP(reciprocal)
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
MICA_COMPOSITE(clipped_relu)
MICA_COMPOSITE(log_sigmoid)

// reduction, scans, order
MICA_OP(sum)
MICA_OP(argmax)

// linear algebra
MICA_OP(matmul)
MICA_OP(linear)

// convolution and pooling
MICA_OP(conv2d)
MICA_OP(conv2d_dgrad)
MICA_OP(conv2d_wgrad)
MICA_CPU_OP(conv3d)
MICA_CPU_OP(conv3d_dgrad)
MICA_CPU_OP(conv3d_wgrad)
MICA_COMPOSITE(conv1d)
MICA_COMPOSITE(conv_transpose1d)
MICA_COMPOSITE(conv_transpose2d)
MICA_COMPOSITE(conv_transpose3d)
MICA_OP(max_pool2d)
MICA_OP(max_pool2d_grad)

// sampling

// normalisation and loss
MICA_OP(batch_norm)
MICA_OP(batch_norm_grad)
MICA_OP(cross_entropy)
MICA_OP(cross_entropy_grad)

// indexing
MICA_CPU_OP(gather)
MICA_CPU_OP(scatter)
MICA_CPU_OP(scatter_add)
MICA_CPU_OP(index_select)
MICA_CPU_OP(index_add)
MICA_COMPOSITE(index_copy)
MICA_COMPOSITE(take_along_axis)
MICA_CPU_OP(index)
MICA_CPU_OP(index_put)
MICA_CPU_OP(nonzero)
MICA_COMPOSITE(masked_fill)
MICA_COMPOSITE(masked_select)
MICA_CPU_OP(embedding)
MICA_CPU_OP(embedding_grad)
MICA_CPU_OP(one_hot)

// random
MICA_OP(rng_take)
MICA_OP(uniform)
MICA_OP(normal)
MICA_CPU_OP(randint)
MICA_OP(dropout)

// updates
MICA_OP(sgd_update)

// oneDNN
MICA_ONEDNN_KERNEL(matmul)
MICA_ONEDNN_KERNEL(linear)
MICA_ONEDNN_KERNEL(conv2d)
MICA_ONEDNN_KERNEL(conv2d_dgrad)
MICA_ONEDNN_KERNEL(conv2d_wgrad)
MICA_ONEDNN_KERNEL(conv3d)
MICA_ONEDNN_KERNEL(conv3d_dgrad)
MICA_ONEDNN_KERNEL(conv3d_wgrad)

#undef MICA_OP
#undef MICA_CPU_OP
#undef MICA_VIEW_OP
#undef MICA_COMPOSITE
#undef MICA_ONEDNN_KERNEL
