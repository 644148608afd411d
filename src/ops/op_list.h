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
