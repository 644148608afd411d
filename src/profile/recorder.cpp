// What threads note while a profile is taken: each in a log of its own, under a lock that nobody
// else wants until the end.
#include "mica/profile/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/graph/captured_scopes.h"
#include "mica/graph/plan.h"
#include "mica/op/run_watcher.h"
#include "mica/op/settings.h"
#include "mica/profile/kind.h"
#include "mica/profile/memory_watch.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/device_trace.h"
#include "mica/runtime/runtime.h"

namespace mica::profiler {
namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// What one thread noted. Kinds and scopes are numbered here.
struct Log {
  Mutex mutex;
  std::vector<Kind> kinds;
  std::unordered_map<uint64_t, int> kind_at;  ///< by hash
  std::vector<Scope> scopes;
  std::map<std::tuple<std::string, Phase, std::string>, int> scope_at;
  CapturedScopes where;
  bool in_network = false;  ///< a module was called since the last update
  std::vector<Run> runs;
  std::vector<Span> spans;
  /// Of what the thread is in: who was told that it began, and whether it is kept.
  struct Open {
    DeviceTracer* tracer = nullptr;
    bool kept = false;
  };
  struct OpenSpan : Open {
    size_t at = 0;  ///< of spans
  };
  struct OpenRun : Open {
    int64_t begin = 0;
    int64_t inner = 0;  ///< time of runs inside it
    uint64_t id = 0;
  };
  std::vector<OpenSpan> open_spans;
  std::vector<OpenRun> open_runs;
  int number = 0;
};

class Recorder final : public RunWatcher, public RangeListener {
 public:
  void start();
  void set_state(Recording to);
  void watch_besides(RunWatcher* watcher, RangeListener* listener);
  void note_step();
  Profile stop();

  void began(const KernelRun& run) override;
  void ended(const KernelRun& run) override;
  void began(std::string_view name, RangeKind kind) override;
  void ended() override;
  void plan_runs(const Plan& plan);

 private:
  /// A stretch of time in which things were kept, and how much was left out before it.
  struct Stretch {
    int64_t begin;
    int64_t end;
    int64_t left_out;
  };
  /// A call whose kernels are nodes of graphs.
  struct Recorded {
    const Log* log;
    int kind;
    int scope;
  };

  Log& log();
  static int kind_of(Log& log, const KernelRun& run);
  static int scope_of(Log& log, const KernelRun& run);
  /// Time without what was left out; what ends while nothing is kept ends where that began.
  int64_t elapsed(int64_t at) const {
    const int64_t off = off_since_;
    return (off != 0 ? std::min(at, off) : at) - start_ - left_out_;
  }
  /// The number of a run or a span. Odd ones are of recorded calls.
  uint64_t next_id() { return 2 * ++last_id_; }
  /// Is told of runs and ranges, or leaves it to the others.
  void watch(bool on);
  void be_told();
  /// Who sees what devices do, from when there are any.
  DeviceTracer* tracer();
  /// Keeps what devices did until now, or not.
  void take_trace(bool keep);
  void add_device_runs(Profile& p, const std::map<const Log*, std::vector<int>>& kinds,
                       const std::map<const Log*, std::vector<int>>& scopes) const;

  Mutex mutex_;  // of what follows
  std::vector<std::shared_ptr<Log>> logs_;
  std::vector<int64_t> steps_;
  bool active_ = false;
  std::vector<Stretch> stretches_;
  std::vector<Recorded> recorded_;
  std::map<const Plan*, MemoryUse> plans_;
  MemoryWatch memory_;

  std::mutex trace_mutex_;  // of what follows; whoever needs both takes the other first
  std::string source_;
  std::vector<DeviceWork> work_;  ///< names are of work_names_
  std::vector<std::string> work_names_;
  uint64_t dropped_ = 0;
  std::atomic<DeviceTracer*> tracer_{nullptr};

  std::mutex watchers_mutex_;  // of what follows
  bool watching_ = false;
  std::atomic<RunWatcher*> other_watcher_{nullptr};
  std::atomic<RangeListener*> other_listener_{nullptr};

  std::atomic<Recording> state_{Recording::off};
  std::atomic<uint64_t> last_id_ = 0;
  std::atomic<uint64_t> session_ = 0;
  std::atomic<int64_t> start_ = 0;
  std::atomic<int64_t> off_since_ = 0;  ///< 0: things are kept
  std::atomic<int64_t> left_out_ = 0;
};

Recorder& recorder() {
  static auto& one = *new Recorder;  // threads may be in it when the program ends
  return one;
}

Log& Recorder::log() {
  thread_local std::shared_ptr<Log> mine;
  thread_local uint64_t session = 0;
  if (session != session_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    mine = std::make_shared<Log>();
    mine->number = static_cast<int>(logs_.size());
    logs_.push_back(mine);
    session = session_;
  }
  return *mine;
}

DeviceTracer* Recorder::tracer() {
  if (DeviceTracer* known = tracer_.load(std::memory_order_acquire)) return known;
  DeviceTracer* found = cuda_tracer();
  if (!found) return nullptr;
  const std::lock_guard lock(trace_mutex_);
  if (!tracer_ && state_ != Recording::off) {
    source_ = found->start();
    tracer_ = found;
  }
  return tracer_;
}

void Recorder::take_trace(bool keep) {
  const std::lock_guard lock(trace_mutex_);
  if (!tracer_) return;
  DeviceTrace trace = tracer_.load()->take();
  if (!keep) return;
  const auto first = static_cast<uint32_t>(work_names_.size());
  for (std::string& name : trace.names) work_names_.push_back(std::move(name));
  for (DeviceWork w : trace.work) {
    w.name += first;
    work_.push_back(w);
  }
  dropped_ += trace.dropped;
}

/// Nothing where the device was lost: whoever is told of a run must raise nothing.
MemoryStats memory_on(Device device) {
  try {
    return runtime(device).memory_stats(device.index);
  } catch (const DeviceError&) {
    return {};
  }
}

int Recorder::kind_of(Log& log, const KernelRun& run) {
  const auto [at, is_new] =
      log.kind_at.try_emplace(hash_of(run), static_cast<int>(log.kinds.size()));
  if (is_new) log.kinds.push_back(profiler::kind_of(run));
  return at->second;
}

/// Of calls outside of modules too, by where in a training step they are.
std::string path_of(Log& log, const Scope& scope) {
  if (scope.phase == Phase::update) {
    log.in_network = false;
    return kUpdatePath;
  }
  if (scope.module.empty())
    return log.in_network || scope.phase == Phase::backward ? kLossPath : kDataPath;
  log.in_network = true;
  return scope.module;
}

int Recorder::scope_of(Log& log, const KernelRun& run) {
  Scope scope = run.scope ? *run.scope : *log.where.now(last_sequence(), nullptr);
  scope.module = path_of(log, scope);
  const auto [at, is_new] = log.scope_at.try_emplace({scope.module, scope.phase, scope.caller},
                                                     static_cast<int>(log.scopes.size()));
  if (is_new) log.scopes.push_back(std::move(scope));
  return at->second;
}

void Recorder::began(const KernelRun& run) {
  if (RunWatcher* other = other_watcher_) other->began(run);
  Log& l = log();
  Log::OpenRun open;
  open.tracer = run.device.is_cuda() ? tracer() : nullptr;
  open.kept = state_ == Recording::on;
  if (open.tracer && open.tracer->is_recording()) {  // nothing runs yet
    open.kept = false;
    const std::lock_guard lock(mutex_);
    const std::lock_guard log_lock(l.mutex);
    open.id = 2 * recorded_.size() + 1;
    recorded_.push_back({&l, kind_of(l, run), scope_of(l, run)});
  } else {
    open.id = next_id();
  }
  if (open.tracer) open.tracer->begin(open.id, true);
  open.begin = elapsed(now());
  const std::lock_guard lock(l.mutex);
  l.open_runs.push_back(open);
}

void Recorder::ended(const KernelRun& run) {
  const int64_t end = elapsed(now());
  Log& l = log();
  Scope scope;
  MemoryStats memory;
  {
    const std::lock_guard lock(l.mutex);
    const int where = scope_of(l, run);
    scope = l.scopes[static_cast<size_t>(where)];
    if (!l.open_runs.empty()) {  // else begun before the profile was
      const Log::OpenRun was = l.open_runs.back();
      l.open_runs.pop_back();
      if (was.tracer) was.tracer->end();
      if (!l.open_runs.empty()) l.open_runs.back().inner += end - was.begin;
      if (was.kept) {
        Run r{.kind = kind_of(l, run), .scope = where, .thread = l.number};
        r.begin = was.begin;
        r.end = end;
        r.self = end - was.begin - was.inner;
        memory = memory_on(run.device);
        r.allocated = static_cast<int64_t>(memory.allocated);
        r.id = was.id;
        l.runs.push_back(r);
      }
    }
  }
  if (!run.scope) {  // of eager execution
    memory_.ran(run, scope);
    if (memory.allocated > 0) memory_.look(run.device, memory.allocated);
  }
  if (RunWatcher* other = other_watcher_) other->ended(run);
}

void Recorder::began(std::string_view name, RangeKind kind) {
  if (RangeListener* other = other_listener_) other->began(name, kind);
  const int64_t begin = elapsed(now());
  Log& l = log();
  Log::OpenSpan open;
  open.tracer = tracer_;
  open.kept = state_ == Recording::on;
  const uint64_t id = next_id();
  if (open.tracer) open.tracer->begin(id, false);
  const std::lock_guard lock(l.mutex);
  open.at = l.spans.size();
  if (open.kept) l.spans.push_back({std::string(name), kind, l.number, begin, -1, id});
  l.open_spans.push_back(open);
}

void Recorder::ended() {
  const int64_t end = elapsed(now());
  Log& l = log();
  {
    const std::lock_guard lock(l.mutex);
    if (!l.open_spans.empty()) {  // else begun before the profile was
      const Log::OpenSpan was = l.open_spans.back();
      l.open_spans.pop_back();
      if (was.tracer) was.tracer->end();
      if (was.kept) l.spans[was.at].end = end;
    }
  }
  if (RangeListener* other = other_listener_) other->ended();
}

void Recorder::plan_runs(const Plan& plan) {
  if (state_ != Recording::on) return;
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = plans_.try_emplace(&plan);
  if (is_new)
    at->second = {
        fmt::format("a compiled function of {} calls on {}", plan.steps(), plan.captured().device),
        memory_of(plan)};
}

void Recorder::start() {
  {
    const std::lock_guard lock(mutex_);
    check(!active_, "profiler: another profile is being taken; stop it first");
    active_ = true;
    logs_.clear();
    steps_.clear();
    stretches_.clear();
    recorded_.clear();
    plans_.clear();
    memory_.clear();
    start_ = now();
    off_since_ = start_.load();
    left_out_ = 0;
    last_id_ = 0;
    ++session_;
  }
  const std::lock_guard lock(trace_mutex_);
  source_.clear();
  work_.clear();
  work_names_.clear();
  dropped_ = 0;
}

void Recorder::set_state(Recording to) {
  const Recording was = state_;
  if (was == to) return;
  log();  // the thread that starts is the first
  if (was == Recording::off) {
    state_ = Recording::warming;
    tracer();
    watch(true);
    set_storage_watcher(&memory_);
    Plan::set_watcher([](const Plan& plan) { recorder().plan_runs(plan); });
  }
  if (to == Recording::off) {
    watch(false);
    set_storage_watcher(nullptr);
    Plan::set_watcher(nullptr);
  }
  take_trace(was == Recording::on);  // the devices have done what was sent
  {
    const std::lock_guard lock(mutex_);
    if (to == Recording::on) {
      left_out_ += now() - off_since_;
      off_since_ = 0;
      stretches_.push_back({now(), INT64_MAX, left_out_});
    } else if (was == Recording::on) {
      stretches_.back().end = now();
      off_since_ = stretches_.back().end;
    }
    state_ = to;
  }
  const std::lock_guard lock(trace_mutex_);
  if (to == Recording::off && tracer_) tracer_.exchange(nullptr)->stop();
}

void Recorder::watch(bool on) {
  const std::lock_guard lock(watchers_mutex_);
  watching_ = on;
  be_told();
}

void Recorder::watch_besides(RunWatcher* watcher, RangeListener* listener) {
  const std::lock_guard lock(watchers_mutex_);
  other_watcher_ = watcher;
  other_listener_ = listener;
  be_told();
}

void Recorder::be_told() {
  set_run_watcher(watching_ ? this : other_watcher_.load());
  set_range_listener(watching_ ? this : other_listener_.load());
}

void Recorder::note_step() {
  const std::lock_guard lock(mutex_);
  steps_.push_back(elapsed(now()));
}

/// Work that overlaps other work of its stream goes to another track.
std::vector<int> tracks_of(const std::vector<DeviceWork>& work, std::vector<Track>& tracks) {
  std::map<std::pair<int, uint32_t>, std::vector<int>> lanes;  // of a stream
  std::vector<int64_t> ends;                                   // of a track
  std::vector<int> track_of;
  for (const DeviceWork& w : work) {
    std::vector<int>& mine = lanes[{w.device, w.stream}];
    auto lane =
        std::ranges::find_if(mine, [&](int t) { return ends[static_cast<size_t>(t)] <= w.begin; });
    if (lane == mine.end()) {
      std::string name = fmt::format("stream {}", w.stream);
      if (!mine.empty()) name += fmt::format(", side by side {}", mine.size() + 1);
      mine.push_back(static_cast<int>(tracks.size()));
      tracks.push_back({Device::cuda(w.device), name});
      ends.push_back(0);
      lane = std::prev(mine.end());
    }
    ends[static_cast<size_t>(*lane)] = w.end;
    track_of.push_back(*lane);
  }
  return track_of;
}

void Recorder::add_device_runs(Profile& p, const std::map<const Log*, std::vector<int>>& kinds,
                               const std::map<const Log*, std::vector<int>>& scopes) const {
  std::vector<DeviceWork> work = work_;
  std::ranges::stable_sort(work, std::less(), &DeviceWork::begin);
  // What began while nothing was kept is left out.
  const auto stretch_of = [&](int64_t at) -> const Stretch* {
    for (const Stretch& s : stretches_)
      if (at >= s.begin && at <= s.end) return &s;
    return nullptr;
  };
  std::erase_if(work, [&](const DeviceWork& w) { return !stretch_of(w.begin); });
  const std::vector<int> tracks = tracks_of(work, p.tracks);
  std::unordered_map<uint64_t, const Run*> runs;
  std::unordered_map<uint64_t, const Span*> spans;
  for (const Run& r : p.runs) runs.emplace(r.id, &r);
  for (const Span& s : p.spans) spans.emplace(s.id, &s);
  std::map<std::string, int> names;
  std::map<std::tuple<std::string, std::string, uint64_t>, int> other_kinds;
  std::map<std::string, int> other_scopes;
  for (size_t i = 0; i < work.size(); ++i) {
    const DeviceWork& w = work[i];
    const Stretch& stretch = *stretch_of(w.begin);
    DeviceRun r{.what = w.what, .in_graph = w.in_graph, .is_first = w.is_first};
    r.track = tracks[i];
    r.begin = w.begin - start_ - stretch.left_out;
    r.end = w.end - start_ - stretch.left_out;
    r.bytes = static_cast<int64_t>(w.bytes);
    r.sender = runs.contains(w.launch) || spans.contains(w.launch) ? w.launch : 0;
    const std::string& name = work_names_[w.name];
    const auto [at, is_new] = names.try_emplace(name, static_cast<int>(p.device_names.size()));
    if (is_new) p.device_names.push_back(name);
    r.name = at->second;
    const auto run = runs.find(w.cause);
    if (w.cause % 2 == 1 && w.cause / 2 < recorded_.size()) {
      const Recorded& call = recorded_[w.cause / 2];
      r.kind = kinds.at(call.log)[static_cast<size_t>(call.kind)];
      r.scope = scopes.at(call.log)[static_cast<size_t>(call.scope)];
      r.is_known = true;
    } else if (run != runs.end()) {
      r.kind = run->second->kind;
      r.scope = run->second->scope;
      r.is_known = true;
    } else {
      const auto span = spans.find(w.cause);
      r.is_known = span != spans.end();
      const std::string op = r.is_known ? span->second->name : "(unknown)";
      const auto [kind, is_new_kind] =
          other_kinds.try_emplace({op, name, w.bytes}, static_cast<int>(p.kinds.size()));
      if (is_new_kind)
        p.kinds.push_back({.op = op,
                           .kernel = name,
                           .params = "",
                           .shapes = w.bytes > 0 ? fmt::format("{} bytes", w.bytes) : "",
                           .device = Device::cuda(w.device)});
      r.kind = kind->second;
      r.is_first = true;
      const std::string path = r.is_known ? kDataPath : "";
      const auto [scope, is_new_scope] =
          other_scopes.try_emplace(path, static_cast<int>(p.scopes.size()));
      if (is_new_scope) p.scopes.push_back({.module = path});
      r.scope = scope->second;
    }
    p.end = std::max(p.end, r.end);
    p.device_runs.push_back(r);
  }
  p.device_source = source_;
  p.dropped = dropped_;
}

/// What the caching allocator of the first GPU has.
std::vector<HeldBlock> held_blocks() {
  std::vector<HeldBlock> all;
  int segment = -1;
  for (const MemoryBlock& b : cuda_library().memory_blocks(0)) {
    segment += b.begins_segment;
    all.push_back({segment, b.bytes, b.free, b.op ? b.op : ""});
  }
  return all;
}

void drop_name(std::string& path) {
  if (path == kLossPath || path == kDataPath) path.clear();
}

/// Whether there is a network whose loss is differentiated; else calls outside of modules have no
/// name.
bool is_training(const std::vector<std::shared_ptr<Log>>& logs) {
  bool has_modules = false;
  bool has_gradients = false;
  for (const std::shared_ptr<Log>& log : logs) {
    const std::lock_guard lock(log->mutex);
    for (const Scope& s : log->scopes) {
      has_modules = has_modules || !s.module.starts_with('(');
      has_gradients = has_gradients || s.phase == Phase::backward;
    }
  }
  return has_modules && has_gradients;
}

Profile Recorder::stop() {
  set_state(Recording::off);
  const std::lock_guard lock(mutex_);
  active_ = false;
  Profile p;
  p.end = elapsed(now());
  p.steps = steps_;
  std::map<std::tuple<std::string, Phase, std::string>, int> scope_at;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, int>
      kind_at;
  std::map<const Log*, std::vector<int>> kinds;
  std::map<const Log*, std::vector<int>> scopes;
  const bool trains = is_training(logs_);
  for (const std::shared_ptr<Log>& log : logs_) {
    const std::lock_guard log_lock(log->mutex);
    std::vector<int>& own_kinds = kinds[log.get()];
    std::vector<int>& own_scopes = scopes[log.get()];
    for (Kind& k : log->kinds) {
      const auto [at, is_new] =
          kind_at.try_emplace({k.op, k.kernel, k.params, k.shapes, to_string(k.device)},
                              static_cast<int>(p.kinds.size()));
      own_kinds.push_back(at->second);
      if (is_new) p.kinds.push_back(std::move(k));
    }
    for (Scope& s : log->scopes) {
      if (!trains) drop_name(s.module);
      const auto [at, is_new] =
          scope_at.try_emplace({s.module, s.phase, s.caller}, static_cast<int>(p.scopes.size()));
      own_scopes.push_back(at->second);
      if (is_new) p.scopes.push_back(std::move(s));
    }
    for (Run r : log->runs) {
      r.kind = own_kinds[static_cast<size_t>(r.kind)];
      r.scope = own_scopes[static_cast<size_t>(r.scope)];
      p.runs.push_back(r);
    }
    for (Span& s : log->spans) {
      if (s.end < 0) s.end = p.end;
      p.spans.push_back(std::move(s));
    }
    p.threads.push_back(log->number == 0 ? "main" : fmt::format("thread {}", log->number));
  }
  std::ranges::sort(p.runs, {}, [](const Run& r) {
    return std::tuple(r.thread, r.begin, -r.end);  // a run before those inside it
  });
  // Where nobody said when a step ends, a trainer may have.
  if (p.steps.size() < 2) {
    std::vector<int64_t> steps;
    for (const Span& s : p.spans) {
      if (s.kind != RangeKind::step || s.thread != 0) continue;
      if (steps.size() > 1) steps.pop_back();  // the end of the one before
      steps.insert(steps.end(), {s.begin, s.end});
    }
    if (!steps.empty()) p.steps = steps;
  }
  const Device cpu = Device::cpu();
  p.facts.emplace_back("CPU", runtime(cpu).properties(0).name);
  p.facts.emplace_back("threads of a kernel", fmt::format("{}", num_threads()));
  {
    const std::lock_guard trace_lock(trace_mutex_);
    if (!source_.empty()) {
      add_device_runs(p, kinds, scopes);
      try {
        p.blocks = held_blocks();
        p.facts.emplace_back("GPU", runtime(DeviceKind::cuda).properties(0).name);
      } catch (const DeviceError&) {  // it was lost; what was seen before stays
      }
      p.facts.emplace_back("times of the GPU", source_);
    }
  }
  p.peak = memory_.peak();
  if (!trains)
    for (Holder& h : p.peak.holders) drop_name(h.module);
  memory_.clear();
  for (auto& [plan, use] : plans_) p.memory.push_back(std::move(use));
  std::ranges::stable_sort(p.memory, std::greater(),
                           [](const MemoryUse& m) { return m.memory.total(); });
  logs_.clear();
  recorded_.clear();
  plans_.clear();
  work_.clear();
  ++session_;
  return p;
}

}  // namespace

void start_recording() { recorder().start(); }
void set_recording(Recording to) { recorder().set_state(to); }
void watch_besides(RunWatcher* watcher, RangeListener* listener) {
  recorder().watch_besides(watcher, listener);
}
void note_step() { recorder().note_step(); }
Profile stop_recording() { return recorder().stop(); }

}  // namespace mica::profiler
