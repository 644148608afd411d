// Collectives of CUDA tensors: the group's engine, NCCL, on the stream of the call.
#include "mica/core/check.h"
#include "mica/ops/collective/kernels.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

void* stream_of(Encoder* encoder) { return encoder->stream(); }

/// Of a process that is alone the result is a copy.
template <distributed::CollectiveKind kind>
void run(const CollectiveParams& p, const Call& c) {
  using distributed::CollectiveKind;
  constexpr bool kOfPairs = kind == CollectiveKind::send || kind == CollectiveKind::recv;
  const auto group = distributed::communicator(p.group);
  if (group->size() > 1 || group->engines[static_cast<size_t>(DeviceKind::cuda)])
    return detail::run_collective<kind, stream_of>(p, c);
  if constexpr (kOfPairs) {
    fail<Unsupported>("distributed: a process that is alone sends itself nothing on CUDA");
  } else if constexpr (kind != CollectiveKind::barrier) {
    const size_t bytes = static_cast<size_t>(c.in[0].numel()) * size_of(c.in[0].dtype());
    check_cuda(cudaMemcpyAsync(c.out[0].data, c.in[0].data, bytes, cudaMemcpyDeviceToDevice,
                               c.encoder->stream()));
  }
}

template <detail::StreamOf stream>
void run_wait(const CollectiveParams& p, const Call& c) {
  if (distributed::communicator(p.group)->size() > 1) detail::run_wait<stream>(p, c);
}

}  // namespace

#define MICA_COLLECTIVE(name)                                                             \
  KernelList name##_cuda_kernels() {                                                      \
    return {kernel<detail::dense_input, run<distributed::CollectiveKind::name>>("nccl")}; \
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

KernelList collective_wait_cuda_kernels() {
  return {kernel<supports_all<CollectiveParams>, run_wait<stream_of>>("nccl")};
}

}  // namespace mica
