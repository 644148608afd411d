#pragma once

#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {

/// A CUDA stream with its encoder. Never destroyed while the process runs: memory belongs to it.
class CudaStream final : public StreamState {
 public:
  explicit CudaStream(int index) : StreamState(Device::cuda(index)), encoder(index) {}
  void synchronize() override;
  bool query() override;
  void wait(EventState& event) override;

  Encoder encoder;
};

class CudaEvent final : public EventState {
 public:
  /// On the thread's current device.
  explicit CudaEvent(int index);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(StreamState& stream) override;
  void synchronize() override;
  bool query() override;
  double elapsed_ms(EventState& since) override;

 private:
  friend class CudaStream;
  cudaEvent_t event_ = nullptr;
};

}  // namespace mica
