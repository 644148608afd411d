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
MICA_CPU_OP(floor_divide)
MICA_CPU_OP(remainder)
MICA_CPU_OP(pow)
MICA_CPU_OP(minimum)
MICA_CPU_OP(maximum)
MICA_CPU_OP(atan2)
MICA_CPU_OP(lerp)
MICA_CPU_OP(where)
MICA_CPU_OP(clamp)
MICA_CPU_OP(exp)
MICA_CPU_OP(exp2)
MICA_CPU_OP(expm1)
MICA_CPU_OP(log)
MICA_CPU_OP(log2)
MICA_CPU_OP(log10)
MICA_CPU_OP(log1p)
MICA_CPU_OP(sqrt)
MICA_CPU_OP(sin)
MICA_CPU_OP(cos)
MICA_CPU_OP(tan)
MICA_CPU_OP(asin)
MICA_CPU_OP(acos)
MICA_CPU_OP(atan)
MICA_CPU_OP(sinh)
MICA_CPU_OP(cosh)
MICA_CPU_OP(asinh)
MICA_CPU_OP(acosh)
MICA_CPU_OP(atanh)
MICA_CPU_OP(erf)
MICA_CPU_OP(tanh)
MICA_CPU_OP(tanh_grad)
MICA_CPU_OP(sigmoid)
MICA_CPU_OP(sigmoid_grad)
MICA_CPU_OP(rsqrt)
MICA_CPU_OP(reciprocal)
MICA_CPU_OP(square)
MICA_CPU_OP(abs)
MICA_CPU_OP(sign)
MICA_CPU_OP(floor)
MICA_CPU_OP(ceil)
MICA_CPU_OP(trunc)
MICA_CPU_OP(round)
MICA_CPU_OP(eq)
MICA_CPU_OP(ne)
MICA_CPU_OP(lt)
MICA_CPU_OP(le)
MICA_CPU_OP(gt)
MICA_CPU_OP(ge)
MICA_CPU_OP(logical_and)
MICA_CPU_OP(logical_or)
MICA_CPU_OP(logical_xor)
MICA_CPU_OP(logical_not)
MICA_CPU_OP(isnan)
MICA_CPU_OP(isinf)
MICA_CPU_OP(isfinite)
MICA_CPU_OP(bitwise_and)
MICA_CPU_OP(bitwise_or)
MICA_CPU_OP(bitwise_xor)
MICA_CPU_OP(bitwise_not)
MICA_CPU_OP(left_shift)
MICA_CPU_OP(right_shift)
MICA_CPU_OP(leaky_relu)
MICA_CPU_OP(leaky_relu_grad)
MICA_CPU_OP(elu)
MICA_CPU_OP(elu_grad)
MICA_CPU_OP(selu)
MICA_CPU_OP(selu_grad)
MICA_CPU_OP(gelu)
MICA_CPU_OP(gelu_grad)
MICA_CPU_OP(gelu_tanh)
MICA_CPU_OP(gelu_tanh_grad)
MICA_CPU_OP(silu)
MICA_CPU_OP(silu_grad)
MICA_CPU_OP(softplus)
MICA_CPU_OP(softplus_grad)
MICA_CPU_OP(hardsigmoid)
MICA_CPU_OP(hardsigmoid_grad)
MICA_CPU_OP(mish)
MICA_CPU_OP(mish_grad)
MICA_CPU_OP(prelu)
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

#undef MICA_OP
#undef MICA_CPU_OP
#undef MICA_VIEW_OP
#undef MICA_COMPOSITE
#undef MICA_ONEDNN_KERNEL
