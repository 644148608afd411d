// Collectives of CUDA tensors: the group's engine, NCCL, on the stream of the call.
#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/ops/collective/kernels.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

void* stream_of(Encoder* encoder) { return encoder->stream(); }

/// What a process that is alone has sent itself, by group. Its memory is kept, since graphs may
/// hold it, and used again in the order of the stream.
class Letters {
 public:
  void send(int64_t group, const void* data, size_t bytes, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const Letter& l) { return l.bytes == bytes; };
    auto it = std::ranges::find_if(spare_, fits);
    if (it == spare_.end()) {
      it = spare_.insert(it, Letter{nullptr, bytes});
      if (bytes > 0) check_cuda(cudaMalloc(&it->data, bytes));
    }
    copy(it->data, data, bytes, stream);
    sent_[group].push_back(*it);
    spare_.erase(it);
  }
  void recv(int64_t group, void* data, size_t bytes, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    std::deque<Letter>& sent = sent_[group];
    check(!sent.empty() && sent.front().bytes == bytes,
          "recv: this process, alone, has sent itself {}",
          sent.empty() ? "nothing" : fmt::format("{} bytes", sent.front().bytes));
    copy(data, sent.front().data, bytes, stream);
    spare_.push_back(sent.front());
    sent.pop_front();
  }
  static void copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
  }

 private:
  struct Letter {
    void* data;
    size_t bytes;
  };
  Mutex mutex_;
  std::map<int64_t, std::deque<Letter>> sent_;
  std::vector<Letter> spare_;
};

Letters& letters() {
  static auto* letters = new Letters;
  return *letters;
}

/// Of a process that is alone the result is a copy.
template <distributed::CollectiveKind kind>
void run(const CollectiveParams& p, const Call& c) {
  using distributed::CollectiveKind;
  const auto group = distributed::communicator(p.group);
  if (group->size() > 1 || group->rank != 0 ||
      group->engines[static_cast<size_t>(DeviceKind::cuda)])
    return detail::run_collective<kind, stream_of>(p, c);
  const size_t bytes = static_cast<size_t>(c.in[0].numel()) * size_of(c.in[0].dtype());
  cudaStream_t stream = c.encoder->stream();
  if constexpr (kind == CollectiveKind::send) {
    letters().send(p.group, c.in[0].data, bytes, stream);
  } else if constexpr (kind == CollectiveKind::recv) {
    letters().recv(p.group, c.out[0].data, bytes, stream);
  } else if constexpr (kind != CollectiveKind::barrier) {
    Letters::copy(c.out[0].data, c.in[0].data, bytes, stream);
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
