// What a device did and for whom: by CUPTI's records, or by events around ops.
#include "mica/runtime/cuda/tracer.h"

#include <cxxabi.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mica/core/check.h"
#include "mica/runtime/cuda/cupti.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/runtime.h"

namespace mica::cuda {
namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

thread_local NodeNotes* t_notes = nullptr;      // of the graph that the thread records
thread_local std::vector<uint64_t> t_recorded;  // causes that are open there

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

/// Numbers of names.
class Names {
 public:
  uint32_t number_of(const char* mangled) {
    const auto [at, is_new] =
        by_address_.try_emplace(mangled, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(demangled(mangled));
    return at->second;
  }
  uint32_t number_of(const std::string& name) {
    const auto [at, is_new] = by_name_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return at->second;
  }
  /// Starts anew: a module that is loaded later may have its names where another's were.
  std::vector<std::string> take() {
    by_address_.clear();
    by_name_.clear();
    return std::exchange(names_, {});
  }

 private:
  std::unordered_map<const char*, uint32_t> by_address_;
  std::unordered_map<std::string, uint32_t> by_name_;
  std::vector<std::string> names_;
};

const char* name_of(CUpti_ActivityMemcpyKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy from the host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy to the host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "copy to another device";
    default:
      return "copy on the device";
  }
}

// CUPTI's records -------------------------------------------------------------------------------

constexpr CUpti_ExternalCorrelationKind kCauses = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
/// Records of calls are not kept, but only they are told by causes.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_DRIVER};
constexpr size_t kBufferBytes = size_t{1} << 20;

/// What CUPTI's own thread brings, until it is taken.
class Records {
 public:
  void parse(CUcontext context, uint32_t stream, uint8_t* buffer, size_t valid);
  DeviceTrace take();
  void clear();
  /// Some did not fit in memory.
  void drop() {
    const std::lock_guard lock(mutex_);
    ++dropped_;
  }
  void note_node(uint64_t id, const NodeCause& cause) {
    const std::lock_guard lock(mutex_);
    nodes_[id] = cause;
  }

 private:
  struct Record {
    DeviceWork work;
    uint64_t node;
    uint32_t correlation;
  };
  template <class A>
  void add(const A& activity, DeviceWork::What what, uint32_t name, uint64_t bytes) {
    if (activity.end == 0) return;  // it could not be timed
    Record r{{}, activity.graphNodeId, activity.correlationId};
    r.work.what = what;
    r.work.in_graph = activity.graphNodeId != 0;
    r.work.device = static_cast<int>(activity.deviceId);
    r.work.stream = activity.streamId;
    r.work.name = name;
    r.work.bytes = bytes;
    r.work.begin = static_cast<int64_t>(activity.start);
    r.work.end = static_cast<int64_t>(activity.end);
    records_.push_back(r);
  }

  std::mutex mutex_;
  Names names_;
  std::vector<Record> records_;
  std::unordered_map<uint32_t, uint64_t> causes_;  // by the number of the call that sent it
  std::unordered_map<uint64_t, NodeCause> nodes_;  // of executable graphs
  uint64_t dropped_ = 0;
};

void Records::parse(CUcontext context, uint32_t stream, uint8_t* buffer, size_t valid) {
  const Cupti& cupti = Cupti::get();
  const std::lock_guard lock(mutex_);
  CUpti_Activity* record = nullptr;
  while (cupti.get_next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& k = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
        add(k, DeviceWork::What::kernel, names_.number_of(k.name ? k.name : "?"), 0);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& c = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
        const auto kind = static_cast<CUpti_ActivityMemcpyKind>(c.copyKind);
        add(c, DeviceWork::What::copy, names_.number_of(std::string(name_of(kind))), c.bytes);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& f = *reinterpret_cast<const CUpti_ActivityMemset4*>(record);
        add(f, DeviceWork::What::fill, names_.number_of(std::string("fill")), f.bytes);
        break;
      }
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& e = *reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
        if (e.externalKind == kCauses) causes_[e.correlationId] = e.externalId;
        break;
      }
      default:
        break;
    }
  }
  size_t dropped = 0;
  if (cupti.get_dropped(context, stream, &dropped) == CUPTI_SUCCESS) dropped_ += dropped;
}

DeviceTrace Records::take() {
  const std::lock_guard lock(mutex_);
  DeviceTrace trace;
  for (Record& r : records_) {
    const auto sent = causes_.find(r.correlation);
    r.work.launch = sent == causes_.end() ? 0 : sent->second;
    r.work.cause = r.work.launch;
    if (r.work.in_graph) {
      const auto node = nodes_.find(r.node);
      const NodeCause cause = node == nodes_.end() ? NodeCause{} : node->second;
      r.work.cause = cause.cause;
      r.work.is_first = cause.is_first;
    }
    trace.work.push_back(r.work);
  }
  records_.clear();
  causes_.clear();
  trace.names = names_.take();
  trace.dropped = std::exchange(dropped_, 0);
  return trace;
}

void Records::clear() {
  const std::lock_guard lock(mutex_);
  records_.clear();
  causes_.clear();
  nodes_.clear();
  names_.take();
  dropped_ = 0;
}

Records& records() {
  static auto& one = *new Records;  // CUPTI's thread may be in it when the program ends
  return one;
}

uint64_t CUPTIAPI time_stamp() { return static_cast<uint64_t>(now()); }

void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer ? kBufferBytes : 0;
  *most_records = 0;
}

void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t /*size*/,
                               size_t valid) {
  try {
    if (valid > 0) records().parse(context, stream, buffer, valid);
  } catch (const std::bad_alloc&) {
    records().drop();
  }
  std::free(buffer);
}

/// An executable graph has nodes of its own, whose numbers its work carries.
void CUPTIAPI resource_changed(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                               const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE || id != CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED || !t_notes)
    return;
  const auto& resource = *static_cast<const CUpti_ResourceData*>(data);
  const auto& graph = *static_cast<const CUpti_GraphData*>(resource.resourceDescriptor);
  const NodeCause* cause = t_notes->cause_of(graph.originalNode);
  uint64_t number = 0;
  if (cause && Cupti::get().get_node_id(graph.node, &number) == CUPTI_SUCCESS)
    records().note_node(number, *cause);
}

class Activities {
 public:
  /// Why not, in a sentence; empty where all is well.
  std::string start() {
    const Cupti& cupti = Cupti::get();
    if (!cupti.missing.empty()) return cupti.missing;
    records().clear();
    CUptiResult result = cupti.subscribe(&subscriber_, resource_changed, nullptr);
    if (result != CUPTI_SUCCESS) return fmt::format("CUPTI refuses: {}", cupti.words(result));
    const auto go_on = [&](CUptiResult r) {
      if (result == CUPTI_SUCCESS) result = r;
    };
    go_on(cupti.register_timestamp_callback(time_stamp));
    go_on(cupti.register_callbacks(buffer_requested, buffer_completed));
    go_on(cupti.enable_callback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE,
                                CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED));
    for (const CUpti_ActivityKind kind : kKinds)
      if (result == CUPTI_SUCCESS) result = cupti.enable(kind);
    if (result == CUPTI_SUCCESS) return {};
    stop();
    return fmt::format("CUPTI refuses: {}", cupti.words(result));
  }

  static DeviceTrace take() {
    Cupti::get().flush_all(0);
    return records().take();
  }

  void stop() const {
    const Cupti& cupti = Cupti::get();
    for (const CUpti_ActivityKind kind : kKinds) cupti.disable(kind);
    cupti.flush_all(0);
    cupti.unsubscribe(subscriber_);
    records().clear();
  }

  static void begin(uint64_t cause) { Cupti::get().push_external(kCauses, cause); }
  static void end() {
    uint64_t cause = 0;
    Cupti::get().pop_external(kCauses, &cause);
  }

 private:
  CUpti_SubscriberHandle subscriber_ = nullptr;
};

// Events ----------------------------------------------------------------------------------------

struct EventDeleter {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using EventHandle = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;

/// An event on the calling thread's stream; null where that fails, since a profile must not change
/// what a program does.
EventHandle record_event(int device, cudaStream_t* stream) {
  const Encoder* encoder = cuda_library().runtime->encoder(device);
  cudaEvent_t event = nullptr;
  if (cudaEventCreate(&event) != cudaSuccess) return nullptr;
  EventHandle handle(event);
  if (cudaEventRecord(event, encoder->stream()) != cudaSuccess) return nullptr;
  *stream = encoder->stream();
  return handle;
}

class Events {
 public:
  void start() {
    const std::lock_guard lock(mutex_);
    timed_.clear();
    zeros_.clear();
  }

  void begin(uint64_t cause, bool is_op) {
    Open open{.cause = cause};
    if (is_op && ++t_ops == 1 && cudaGetDevice(&open.device) == cudaSuccess) {
      zero_of(open.device);
      open.event = record_event(open.device, &open.stream);
    }
    open.is_op = is_op;
    t_open.push_back(std::move(open));
  }

  void end() {
    if (t_open.empty()) return;
    Open open = std::move(t_open.back());
    t_open.pop_back();
    if (open.is_op) --t_ops;
    if (!open.event) return;
    cudaStream_t stream = nullptr;
    EventHandle event = record_event(open.device, &stream);
    const std::lock_guard lock(mutex_);
    if (event && stream == open.stream)
      timed_.push_back({open.cause, open.device, stream, std::move(open.event), std::move(event)});
  }

  DeviceTrace take() {
    const std::lock_guard lock(mutex_);
    DeviceTrace trace;
    trace.names = {"measured by events"};
    std::unordered_map<cudaStream_t, uint32_t> streams;
    for (const Timed& t : timed_) {
      const Zero& zero = zeros_.at(t.device);
      float since_zero = 0;
      float took = 0;
      if (cudaEventElapsedTime(&since_zero, zero.event.get(), t.begin.get()) != cudaSuccess ||
          cudaEventElapsedTime(&took, t.begin.get(), t.end.get()) != cudaSuccess)
        continue;
      DeviceWork w;
      w.device = t.device;
      w.stream = streams.try_emplace(t.stream, static_cast<uint32_t>(streams.size())).first->second;
      w.cause = w.launch = t.cause;
      w.begin = zero.at + static_cast<int64_t>(static_cast<double>(since_zero) * 1e6);
      w.end = w.begin + static_cast<int64_t>(static_cast<double>(took) * 1e6);
      trace.work.push_back(w);
    }
    timed_.clear();
    return trace;
  }

 private:
  struct Open {
    uint64_t cause = 0;
    bool is_op = false;
    int device = 0;
    cudaStream_t stream = nullptr;
    EventHandle event = nullptr;
  };
  struct Timed {
    uint64_t cause;
    int device;
    cudaStream_t stream;
    EventHandle begin;
    EventHandle end;
  };
  /// An event, and when it was on the host's clock.
  struct Zero {
    EventHandle event;
    int64_t at = 0;
  };

  void zero_of(int device) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = zeros_.try_emplace(device);
    if (!is_new) return;
    cudaStream_t stream = nullptr;
    at->second.event = record_event(device, &stream);
    if (at->second.event) cudaEventSynchronize(at->second.event.get());
    at->second.at = now();
  }

  static thread_local std::vector<Open> t_open;
  static thread_local int t_ops;
  std::mutex mutex_;
  std::vector<Timed> timed_;
  std::unordered_map<int, Zero> zeros_;
};

thread_local std::vector<Events::Open> Events::t_open;
thread_local int Events::t_ops = 0;

// Both ------------------------------------------------------------------------------------------

class CudaTracer final : public DeviceTracer {
 public:
  std::string start() override {
    const std::string refused = activities_.start();
    by_events_ = !refused.empty();
    if (by_events_) events_.start();
    static int64_t sessions = 0;
    g_device_tracing.store(by_events_ ? -1 : ++sessions, std::memory_order_release);
    if (!by_events_) return "CUPTI";
    return fmt::format("CUDA events around each op, since {}", refused);
  }

  DeviceTrace take() override {
    int device = 0;
    if (cudaGetDevice(&device) == cudaSuccess) {
      for (int d = 0; d < cuda_library().runtime->device_count(); ++d)
        if (is_in_use(d) && cudaSetDevice(d) == cudaSuccess) cudaDeviceSynchronize();
      cudaSetDevice(device);
    }
    return by_events_ ? events_.take() : Activities::take();
  }

  void stop() override {
    g_device_tracing.store(0, std::memory_order_release);
    if (!by_events_) activities_.stop();
  }

  void begin(uint64_t cause, bool is_op) override {
    if (t_notes)
      t_recorded.push_back(cause);
    else if (by_events_)
      events_.begin(cause, is_op);
    else
      Activities::begin(cause);
  }

  void end() override {
    if (!t_notes) return by_events_ ? events_.end() : Activities::end();
    if (t_recorded.empty()) return;
    t_notes->note(t_recorded.back());
    t_recorded.pop_back();
  }

  bool is_recording() override { return t_notes != nullptr; }

 private:
  /// Whether the process has a context on it: waiting would make one.
  static bool is_in_use(int device) {
    unsigned flags = 0;
    int active = 0;
    static const auto state = [] {
      void* f = nullptr;
      cudaDriverEntryPointQueryResult found{};
      cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &f, 7000, cudaEnableDefault,
                                       &found);
      return reinterpret_cast<CUresult (*)(CUdevice, unsigned*, int*)>(f);
    }();
    return state && state(device, &flags, &active) == CUDA_SUCCESS && active != 0;
  }

  Activities activities_;
  Events events_;
  bool by_events_ = false;
};

}  // namespace

DeviceTracer& tracer() {
  static auto& one = *new CudaTracer;
  return one;
}

NodeNotes::NodeNotes(cudaStream_t stream) : stream_(stream) { t_notes = this; }

NodeNotes::~NodeNotes() {
  t_notes = nullptr;
  t_recorded.clear();
}

void NodeNotes::note(uint64_t cause) {
  if (device_tracing() <= 0) return;
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* tail = nullptr;
  size_t count = 0;
  if (cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &tail, nullptr, &count) !=
      cudaSuccess)
    return;
  // Back from where the stream is now to nodes that are known. What is seen last was sent first.
  std::vector<cudaGraphNode_t> open(tail, tail + count);
  NodeCause* first = nullptr;
  std::vector<cudaGraphNode_t> before;
  std::vector<cudaGraphEdgeData> edges;
  for (size_t i = 0; i < open.size(); ++i) {
    const auto [at, is_new] = causes_.try_emplace(open[i], NodeCause{cause});
    if (!is_new) continue;
    cudaGraphNodeType type{};
    if (cudaGraphNodeGetType(open[i], &type) == cudaSuccess &&
        (type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy ||
         type == cudaGraphNodeTypeMemset))
      first = &at->second;
    size_t n = 0;
    if (cudaGraphNodeGetDependencies(open[i], nullptr, nullptr, &n) != cudaSuccess || n == 0)
      continue;
    before.resize(n);
    edges.resize(n);
    if (cudaGraphNodeGetDependencies(open[i], before.data(), edges.data(), &n) == cudaSuccess)
      open.insert(open.end(), before.begin(), before.begin() + static_cast<ptrdiff_t>(n));
  }
  if (first) first->is_first = true;
  cudaGetLastError();
}

const NodeCause* NodeNotes::cause_of(cudaGraphNode_t node) const {
  const auto at = causes_.find(node);
  return at == causes_.end() ? nullptr : &at->second;
}

}  // namespace mica::cuda
