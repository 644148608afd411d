#include <cstdlib>
#include <new>

#include "mica/distributed/nccl/cuda_progress.h"
#include "mica/runtime/cuda/check.h"

namespace mica::distributed {
namespace {

using Counts = Progress::Counts;

__global__ void begin_collective(Counts* own, volatile Counts* told, int64_t what, int numbered) {
  own->number += numbered;
  told->what = what;
  told->number = own->number;
  __threadfence_system();
  told->begun = ++own->begun;
}

__global__ void end_collective(Counts* own, volatile Counts* told) { told->ended = ++own->ended; }

}  // namespace

Progress::Progress() {
  check_cuda(cudaMalloc(&own_, sizeof(Counts)));
  check_cuda(cudaMemset(own_, 0, sizeof(Counts)));
  check_cuda(cudaDeviceSynchronize());
  // Memory of the process, not of CUDA, which is gone before the last reader is.
  constexpr size_t kPage = 4096;
  void* page = std::aligned_alloc(kPage, kPage);
  if (!page) throw std::bad_alloc();
  told_ = new (page) Counts;
  check_cuda(cudaHostRegister(page, kPage, cudaHostRegisterMapped));
  check_cuda(cudaHostGetDevicePointer(reinterpret_cast<void**>(&told_to_), page, 0));
}

void Progress::begin(cudaStream_t stream, int64_t what, bool numbered) {
  begin_collective<<<1, 1, 0, stream>>>(own_, told_to_, what, numbered ? 1 : 0);
  check_cuda(cudaGetLastError());
}

void Progress::end(cudaStream_t stream) {
  end_collective<<<1, 1, 0, stream>>>(own_, told_to_);
  check_cuda(cudaGetLastError());
}

Counts Progress::read() const {
  const volatile Counts& c = *told_;
  Counts now;
  now.begun = c.begun;
  now.ended = c.ended;
  now.number = c.number;
  now.what = c.what;
  return now;
}

}  // namespace mica::distributed
