// Collectives of CUDA tensors: the group's engine, NCCL, on the stream of the call.
#include "mica/ops/collective/kernels.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

void* stream_of(Encoder* encoder) { return encoder->stream(); }

}  // namespace

#define MICA_COLLECTIVE(name)                                                         \
  KernelList name##_cuda_kernels() {                                                  \
    return {collective_kernel<distributed::CollectiveKind::name, stream_of>("nccl")}; \
  }
MICA_COLLECTIVE(all_reduce)
MICA_COLLECTIVE(all_gather)
MICA_COLLECTIVE(reduce_scatter)
MICA_COLLECTIVE(broadcast)
MICA_COLLECTIVE(all_to_all)
MICA_COLLECTIVE(send)
MICA_COLLECTIVE(recv)
MICA_COLLECTIVE(barrier)
#undef MICA_COLLECTIVE

KernelList collective_wait_cuda_kernels() { return {collective_wait_kernel<stream_of>("nccl")}; }

}  // namespace mica
