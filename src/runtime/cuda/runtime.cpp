#include "mica/runtime/cuda/runtime.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "mica/core/check.h"
#include "mica/core/range.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/graph.h"
#include "mica/runtime/cuda/not_recordable.h"
#include "mica/runtime/stream.h"

namespace mica {

HostStaging::HostStaging() {
  check_cuda(cudaMallocHost(&pinned_, kSlots * kSlotBytes));
  for (cudaEvent_t& event : sent_)
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
}

HostStaging::~HostStaging() {
  for (cudaEvent_t event : sent_)
    if (event) cudaEventDestroy(event);
  cudaFreeHost(pinned_);
}

void HostStaging::send(void* destination, const void* source, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const int slot = next_;
  next_ = (next_ + 1) % kSlots;
  check_cuda(cudaEventSynchronize(sent_[slot]));  // the slot's last values have left
  std::byte* buffer = pinned_ + static_cast<size_t>(slot) * kSlotBytes;
  std::memcpy(buffer, source, bytes);
  check_cuda(cudaMemcpyAsync(destination, buffer, bytes, cudaMemcpyHostToDevice, stream));
  check_cuda(cudaEventRecord(sent_[slot], stream));
}

namespace {

/// Null: the default stream. Whoever sets one keeps it alive.
thread_local std::array<CudaStream*, CudaRuntime::kMostDevices> t_current{};

cudaStream_t handle_of(StreamState& stream) {
  return static_cast<CudaStream&>(stream).encoder.stream();
}

}  // namespace

CudaRuntime::CudaRuntime(int device_count)
    : device_count_(std::min(device_count, kMostDevices)),
      slots_(std::make_unique<Slot[]>(static_cast<size_t>(device_count_))) {}

CudaRuntime::PerDevice::PerDevice(int index)
    : allocator(index),
      default_stream(std::make_shared<CudaStream>(index)),
      recorder(std::make_shared<CudaStream>(index)) {
  streams.push_back(default_stream.get());
}

CudaRuntime::PerDevice& CudaRuntime::use(int index) {
  check<DeviceError>(index >= 0 && index < device_count_, "cuda:{}: there {} {} CUDA device{} here",
                     index, device_count_ == 1 ? "is" : "are", device_count_,
                     device_count_ == 1 ? "" : "s");
  check_cuda_usable();
  Slot& slot = slots_[static_cast<size_t>(index)];
  // Other libraries of the process may have changed the thread's device.
  check_cuda(cudaSetDevice(index));
  std::call_once(slot.once, [&] { slot.device = std::make_unique<PerDevice>(index); });
  return *slot.device;
}

CudaStream& CudaRuntime::current(PerDevice& device, int index) {
  CudaStream* stream = t_current[static_cast<size_t>(index)];
  return stream ? *stream : *device.default_stream;
}

DeviceProperties CudaRuntime::properties(int index) {
  use(index);
  cudaDeviceProp p{};
  check_cuda(cudaGetDeviceProperties(&p, index));
  DeviceProperties properties{.name = p.name,
                              .memory = p.totalGlobalMem,
                              .multiprocessors = p.multiProcessorCount,
                              .compute_capability = p.major * 10 + p.minor,
                              .runtime_version = CUDART_VERSION};
  size_t total = 0;
  check_cuda(cudaMemGetInfo(&properties.free_memory, &total));
  check_cuda(cudaDriverGetVersion(&properties.driver_version));
  return properties;
}

void* CudaRuntime::allocate(size_t bytes, int index) {
  PerDevice& device = use(index);
  const Encoder& encoder = current(device, index).encoder;
  // The graph would use the memory long after it was given back.
  check<DeviceError>(bytes == 0 || !encoder.recording(),
                     "cuda: {} bytes were asked for while a graph is recorded", bytes);
  return device.allocator.allocate(bytes, encoder.stream());
}

void CudaRuntime::deallocate(void* data, size_t /*bytes*/, int index) noexcept {
  // What was allocated here came from a slot that is filled.
  slots_[static_cast<size_t>(index)].device->allocator.deallocate(data);
}

MemoryStats CudaRuntime::memory_stats(int index) { return use(index).allocator.stats(); }
void CudaRuntime::reset_peak(int index) { use(index).allocator.reset_peak(); }
void CudaRuntime::empty_cache(int index) {
  use(index).allocator.empty_cache();
  pinned_.empty_cache();
}
void CudaRuntime::set_memory_limit(int index, size_t bytes) {
  use(index).allocator.set_limit(bytes);
}
void CudaRuntime::record_stream(void* data, int index, StreamState& stream) {
  use(index).allocator.record_use(data, handle_of(stream));
}

void CudaRuntime::record_use(int index, void* data, cudaStream_t stream) {
  use(index).allocator.record_use(data, stream);
}

void CudaRuntime::order_streams(int index, cudaStream_t earlier, cudaStream_t later) {
  if (earlier == later) return;
  use(index);
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const cudaError_t recorded = cudaEventRecord(event, earlier);
  const cudaError_t waits = recorded == cudaSuccess ? cudaStreamWaitEvent(later, event) : recorded;
  cudaEventDestroy(event);  // in effect once it has been reached
  check_cuda(waits);
}

void* CudaRuntime::allocate_pinned(size_t bytes) {
  check_cuda_usable();
  return pinned_.allocate(bytes);
}
void CudaRuntime::deallocate_pinned(void* data) noexcept { pinned_.deallocate(data); }

void CudaRuntime::copy_from_pinned(void* destination, const void* source, size_t bytes, int index) {
  copy_pinned(destination, source, bytes, index, cudaMemcpyHostToDevice, source);
}
void CudaRuntime::copy_to_pinned(void* destination, const void* source, size_t bytes, int index) {
  copy_pinned(destination, source, bytes, index, cudaMemcpyDeviceToHost, destination);
}

void CudaRuntime::copy_pinned(void* destination, const void* source, size_t bytes, int index,
                              cudaMemcpyKind kind, const void* host) {
  if (bytes == 0) return;
  const Range range("copying pinned memory", RangeKind::launch);
  const cudaStream_t stream = current(use(index), index).encoder.stream();
  check_cuda(cudaMemcpyAsync(destination, source, bytes, kind, stream));
  pinned_.note_copy(host, {index, stream});
}

void CudaRuntime::copy_from_host(void* destination, const void* source, size_t bytes, int index) {
  if (bytes == 0) return;
  const Range range("copying from the host", RangeKind::launch);
  PerDevice& device = use(index);
  Encoder& encoder = current(device, index).encoder;
  if (bytes <= HostStaging::kSlotBytes) {
    device.staging.send(destination, source, bytes, encoder.stream());
  } else {
    check_cuda(
        cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, encoder.stream()));
    encoder.synchronize();
  }
}

void CudaRuntime::copy_to_host(void* destination, const void* source, size_t bytes, int index) {
  const Range range("copy to the host", RangeKind::wait);
  if (bytes == 0) return;
  Encoder& encoder = current(use(index), index).encoder;
  check_cuda(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToHost, encoder.stream()));
  encoder.synchronize();
}

void CudaRuntime::copy(void* destination, const void* source, size_t bytes, int index) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice,
                             current(use(index), index).encoder.stream()));
}

void CudaRuntime::copy_between(void* destination, int destination_index, const void* source,
                               int source_index, size_t bytes) {
  if (bytes == 0) return;
  if (destination_index == source_index) return copy(destination, source, bytes, source_index);
  const Stream receiving(current_stream(destination_index));
  const Stream sending(current_stream(source_index));
  enable_peer_access(source_index, destination_index);
  Event ready;  // whatever used the destination's memory before is done
  ready.record(receiving);
  sending.wait(ready);
  use(source_index);
  check_cuda(cudaMemcpyPeerAsync(destination, destination_index, source, source_index, bytes,
                                 handle_of(sending.state())));
  Event sent;
  sent.record(sending);
  receiving.wait(sent);
}

/// Without it peer copies go through the host, and work all the same.
void CudaRuntime::enable_peer_access(int from, int to) {
  const std::lock_guard lock(mutex_);
  if (!peers_.emplace(from, to).second) return;
  use(from);
  int possible = 0;
  check_cuda(cudaDeviceCanAccessPeer(&possible, from, to));
  if (possible && cudaDeviceEnablePeerAccess(to, 0) != cudaSuccess) cudaGetLastError();
}

void CudaRuntime::synchronize(int index) {
  const Range range("synchronize", RangeKind::wait);
  PerDevice& device = use(index);
  const auto streams = [&] {
    const std::lock_guard lock(mutex_);
    return device.streams;
  }();
  for (CudaStream* stream : streams) stream->encoder.synchronize();
}

std::shared_ptr<StreamState> CudaRuntime::create_stream(int index) {
  PerDevice& device = use(index);
  const std::lock_guard lock(mutex_);
  if (device.unused.empty()) {
    auto made = std::make_unique<CudaStream>(index);
    device.unused.reserve(device.streams.size());  // taking it back must not fail
    device.streams.push_back(made.get());
    device.unused.push_back(made.release());
  }
  CudaStream* stream = device.unused.back();
  device.unused.pop_back();
  return {stream, [this, &device](CudaStream* back) {
            const std::lock_guard lock_back(mutex_);
            device.unused.push_back(back);
          }};
}

std::shared_ptr<StreamState> CudaRuntime::default_stream(int index) {
  return use(index).default_stream;
}

std::shared_ptr<StreamState> CudaRuntime::current_stream(int index) {
  return current(use(index), index).shared_from_this();
}

void CudaRuntime::set_current_stream(int index, StreamState& stream) {
  t_current[static_cast<size_t>(index)] = &static_cast<CudaStream&>(stream);
}

std::unique_ptr<EventState> CudaRuntime::create_event(int index) {
  use(index);
  return std::make_unique<CudaEvent>(index);
}

Encoder* CudaRuntime::encoder(int index) { return &current(use(index), index).encoder; }

void CudaRuntime::op_launched(const char* op, int index) {
  // The op's launches made its slot and set the device.
  current(*slots_[static_cast<size_t>(index)].device, index).encoder.op_launched(op);
}

std::unique_ptr<Replay> CudaRuntime::record(int index, const std::vector<std::vector<int>>& after,
                                            const std::function<void(int step)>& launch) {
  if (Encoder::launches_block()) return nullptr;  // so that each step is waited for
  PerDevice& device = use(index);
  const Encoder& replays_on = current(device, index).encoder;
  check<DeviceError>(!replays_on.recording(), "cuda: a graph is being recorded already");
  // On a stream of its own: what other threads send to the current one is not part of the graph.
  const std::lock_guard lock(device.recording);
  const StreamGuard guard(Stream(device.recorder));
  try {
    return record_graph(device.recorder->encoder, replays_on, after, launch);
  } catch (const NotRecordable&) {
    cudaGetLastError();  // of what could not be recorded
    return nullptr;
  }
}

}  // namespace mica
