#include "mica/runtime/cuda/runtime.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "mica/core/check.h"
#include "mica/runtime/cuda/check.h"

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

struct GraphDeleter {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
struct GraphExecDeleter {
  void operator()(cudaGraphExec_t exec) const { cudaGraphExecDestroy(exec); }
};
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, GraphDeleter>;
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, GraphExecDeleter>;

class GraphReplay : public Replay {
 public:
  GraphReplay(GraphExec exec, const Encoder& encoder) : exec_(std::move(exec)), encoder_(encoder) {}
  void launch() override {
    check_cuda(cudaSetDevice(encoder_.device()));
    check_cuda(cudaGraphLaunch(exec_.get(), encoder_.stream()));
  }

 private:
  GraphExec exec_;
  const Encoder& encoder_;
};

/// Turns launches on a stream into nodes of a graph while it lives.
class StreamCapture {
 public:
  StreamCapture(cudaStream_t stream, CachingAllocator& allocator)
      : stream_(stream), allocator_(allocator) {
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    allocator_.set_recording(true);
  }
  ~StreamCapture() {
    if (ended_) return;
    const Graph discarded(end_capture().second);
  }
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;

  /// What the next launch waits for, instead of the one before it.
  void set_waits(std::vector<cudaGraphNode_t> nodes) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    check_cuda(cudaStreamUpdateCaptureDependencies(stream_, nodes.data(), nullptr, nodes.size(),
                                                   cudaStreamSetCaptureDependencies));
  }
  std::vector<cudaGraphNode_t> waits() const {
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* nodes = nullptr;
    size_t count = 0;
    check_cuda(
        cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &nodes, nullptr, &count));
    return {nodes, nodes + count};
  }

  Graph finish() {
    const auto [code, graph] = end_capture();
    check_cuda(code);
    return Graph(graph);
  }

 private:
  std::pair<cudaError_t, cudaGraph_t> end_capture() {
    ended_ = true;
    allocator_.set_recording(false);
    cudaGraph_t graph = nullptr;
    const cudaError_t code = cudaStreamEndCapture(stream_, &graph);
    return {code, graph};
  }

  cudaStream_t stream_;
  CachingAllocator& allocator_;
  bool ended_ = false;
};

}  // namespace

CudaRuntime::CudaRuntime(int device_count)
    : device_count_(device_count),
      slots_(std::make_unique<Slot[]>(static_cast<size_t>(device_count))) {}

CudaRuntime::PerDevice& CudaRuntime::use(int index) {
  check<DeviceError>(index >= 0 && index < device_count_, "cuda:{}: there {} {} CUDA device{} here",
                     index, device_count_ == 1 ? "is" : "are", device_count_,
                     device_count_ == 1 ? "" : "s");
  Slot& slot = slots_[static_cast<size_t>(index)];
  // Other libraries of the process may have changed the thread's device.
  check_cuda(cudaSetDevice(index));
  std::call_once(slot.once, [&] { slot.device = std::make_unique<PerDevice>(index); });
  return *slot.device;
}

DeviceProperties CudaRuntime::properties(int index) {
  use(index);
  cudaDeviceProp p{};
  check_cuda(cudaGetDeviceProperties(&p, index));
  return {.name = p.name,
          .memory = p.totalGlobalMem,
          .multiprocessors = p.multiProcessorCount,
          .compute_capability = p.major * 10 + p.minor};
}

void* CudaRuntime::allocate(size_t bytes, int index) {
  return use(index).allocator.allocate(bytes);
}

void CudaRuntime::deallocate(void* data, size_t /*bytes*/, int index) noexcept {
  // What was allocated here came from a slot that is filled.
  slots_[static_cast<size_t>(index)].device->allocator.deallocate(data);
}

MemoryStats CudaRuntime::memory_stats(int index) { return use(index).allocator.stats(); }
void CudaRuntime::reset_peak(int index) { use(index).allocator.reset_peak(); }
void CudaRuntime::empty_cache(int index) { use(index).allocator.empty_cache(); }

void CudaRuntime::copy_from_host(void* destination, const void* source, size_t bytes, int index) {
  if (bytes == 0) return;
  PerDevice& device = use(index);
  const cudaStream_t stream = device.encoder.stream();
  if (bytes <= HostStaging::kSlotBytes) {
    device.staging.send(destination, source, bytes, stream);
  } else {
    check_cuda(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, stream));
    device.encoder.synchronize();
  }
}

void CudaRuntime::copy_to_host(void* destination, const void* source, size_t bytes, int index) {
  if (bytes == 0) return;
  PerDevice& device = use(index);
  check_cuda(
      cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToHost, device.encoder.stream()));
  device.encoder.synchronize();
}

void CudaRuntime::copy(void* destination, const void* source, size_t bytes, int index) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice,
                             use(index).encoder.stream()));
}

void CudaRuntime::synchronize(int index) { use(index).encoder.synchronize(); }

Encoder* CudaRuntime::encoder(int index) { return &use(index).encoder; }

std::unique_ptr<Replay> CudaRuntime::record(int index, const std::vector<std::vector<int>>& after,
                                            const std::function<void(int step)>& launch) {
  PerDevice& device = use(index);
  const Graph graph = [&] {
    StreamCapture capture(device.encoder.stream(), device.allocator);
    std::vector<std::vector<cudaGraphNode_t>> last(after.size());  // nodes each step ends with
    for (size_t i = 0; i < after.size(); ++i) {
      std::vector<cudaGraphNode_t> waits;
      for (const int step : after[i]) {
        const auto& nodes = last[static_cast<size_t>(step)];
        waits.insert(waits.end(), nodes.begin(), nodes.end());
      }
      capture.set_waits(waits);
      launch(static_cast<int>(i));
      last[i] = capture.waits();
    }
    return capture.finish();
  }();
  cudaGraphExec_t raw = nullptr;
  check_cuda(cudaGraphInstantiate(&raw, graph.get(), 0));
  GraphExec exec(raw);
  check_cuda(cudaGraphUpload(exec.get(), device.encoder.stream()));
  return std::make_unique<GraphReplay>(std::move(exec), device.encoder);
}

}  // namespace mica
