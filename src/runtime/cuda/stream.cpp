#include "mica/runtime/cuda/stream.h"

#include "mica/runtime/cuda/check.h"
#include "mica/runtime/host_waits.h"

namespace mica {
namespace {

/// Turns the answer to "is it done?" into one; an error is raised.
bool is_done(cudaError_t code, const CallSite& site = CallSite::current()) {
  if (code == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check_cuda(code, site);
  return true;
}

}  // namespace

void CudaStream::synchronize() {
  check_cuda_usable();
  encoder.synchronize();
}

bool CudaStream::query() {
  check_cuda_usable();
  return is_done(cudaStreamQuery(encoder.stream()));
}

void CudaStream::wait(EventState& event) {
  check_cuda_usable();
  if (event.device.is_cuda()) {
    check_cuda(cudaStreamWaitEvent(encoder.stream(), static_cast<CudaEvent&>(event).event_));
  } else {
    event.synchronize();
  }
}

CudaEvent::CudaEvent(int index) : EventState(Device::cuda(index)) {
  check_cuda(cudaEventCreate(&event_));
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::record(StreamState& stream) {
  check_cuda_usable();
  check_cuda(cudaEventRecord(event_, static_cast<CudaStream&>(stream).encoder.stream()));
}

void CudaEvent::synchronize() {
  check_cuda_usable();
  count_host_wait(DeviceKind::cuda);
  check_cuda(cudaEventSynchronize(event_));
}

bool CudaEvent::query() {
  check_cuda_usable();
  return is_done(cudaEventQuery(event_));
}

double CudaEvent::elapsed_ms(EventState& since) {
  CudaEvent& start = static_cast<CudaEvent&>(since);
  start.synchronize();
  synchronize();
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, start.event_, event_));
  return double{milliseconds};
}

}  // namespace mica
