#include "mica/runtime/cuda/graph.h"

#include <algorithm>
#include <type_traits>

#include "mica/core/range.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/graph_memsets.h"
#include "mica/runtime/cuda/tracer.h"
#include "mica/runtime/op_scope.h"

namespace mica {
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
  GraphReplay(GraphExec exec, int device) : exec_(std::move(exec)), device_(device) {}
  void launch() override {
    constexpr const char* kName = "a compiled function";
    const OpScope scope(kName);
    const Range range("launching a compiled function", RangeKind::launch);
    Encoder* encoder = runtime(DeviceKind::cuda).encoder(device_);
    check_cuda(cudaGraphLaunch(exec_.get(), encoder->stream()));
    encoder->op_launched(kName);
  }

 private:
  GraphExec exec_;
  int device_;
};

/// Turns launches on a stream into nodes of a graph while it lives.
class StreamCapture {
 public:
  StreamCapture(Encoder& encoder, const Encoder& replays_on)
      : encoder_(encoder), stream_(encoder.stream()) {
    encoder_.begin_recording(replays_on);
    // Relaxed: nobody waits for this stream, and memory may be given back meanwhile.
    const cudaError_t code = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed);
    if (code != cudaSuccess) encoder_.end_recording();
    check_cuda(code);
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
    cudaGraph_t graph = nullptr;
    const cudaError_t code = cudaStreamEndCapture(stream_, &graph);
    encoder_.end_recording();
    return {code, graph};
  }

  Encoder& encoder_;
  cudaStream_t stream_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<Replay> record_graph(Encoder& encoder, const Encoder& replays_on,
                                     const std::vector<std::vector<int>>& after,
                                     const std::function<void(int step)>& launch) {
  const cuda::NodeNotes notes(encoder.stream());
  const Graph graph = [&] {
    StreamCapture capture(encoder, replays_on);
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
  replace_memsets(graph.get());
  cudaGraphExec_t raw = nullptr;
  check_cuda(cudaGraphInstantiate(&raw, graph.get(), 0));
  GraphExec exec(raw);
  check_cuda(cudaGraphUpload(exec.get(), replays_on.stream()));
  return std::make_unique<GraphReplay>(std::move(exec), encoder.device());
}

}  // namespace mica
