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
#include "mica/graph/value_bytes.h"
#include "mica/op/run_watcher.h"
#include "mica/op/settings.h"
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
  std::vector<Run> runs;
  std::vector<Span> spans;
  std::vector<size_t> open;  ///< spans that the thread is in
  struct Inside {
    int64_t begin;
    int64_t inner = 0;  ///< time of runs inside it
  };
  std::vector<Inside> inside;  ///< runs that the thread is in
  int number = 0;
};

class Recorder final : public RunWatcher, public RangeListener {
 public:
  void start();
  void set_on(bool on);
  void note_step();
  Profile stop();

  void began(const KernelRun& run) override;
  void ended(const KernelRun& run) override;
  void began(std::string_view name, RangeKind kind) override;
  void ended() override;

 private:
  Log& log();
  static int kind_of(Log& log, const KernelRun& run);
  static int scope_of(Log& log, const KernelRun& run);
  /// Time without what was left out.
  int64_t elapsed(int64_t at) const { return at - start_ - left_out_; }

  Mutex mutex_;  // of what follows
  std::vector<std::shared_ptr<Log>> logs_;
  std::vector<int64_t> steps_;
  bool active_ = false;
  int64_t off_since_ = 0;
  std::atomic<uint64_t> session_ = 0;
  std::atomic<int64_t> start_ = 0;
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

std::string shapes_text(const KernelRun& run) {
  std::string text;
  const auto add = [&](std::span<const Arg> args) {
    bool first = true;
    for (const Arg& a : args) {
      if (!a.spec->defined) continue;
      text += fmt::format("{}{}", first ? "" : ", ", *a.spec);
      first = false;
    }
  };
  add(run.in);
  text += " → ";
  add(run.out);
  return text;
}

int Recorder::kind_of(Log& log, const KernelRun& run) {
  const OpDef& op = *run.prepared.op;
  uint64_t hash =
      hash_mix(reinterpret_cast<uintptr_t>(&op), reinterpret_cast<uintptr_t>(run.prepared.kernel));
  hash = hash_mix(hash, op.params_info->hash(run.params));
  for (const std::span<const Arg> args : {run.in, run.out})
    for (const Arg& a : args) {
      hash = hash_mix(hash, a.spec->defined ? static_cast<uint64_t>(a.spec->dtype) + 1 : 0);
      if (a.spec->defined) hash = hash_field(hash_field(hash, a.spec->shape), a.spec->strides);
    }
  const auto [at, is_new] = log.kind_at.try_emplace(hash, static_cast<int>(log.kinds.size()));
  if (!is_new) return at->second;
  Kind kind{.op = op.name,
            .kernel = run.prepared.kernel->name,
            .params = op.params_info->print(run.params),
            .shapes = shapes_text(run),
            .device = run.device};
  std::vector<TensorSpec> in;
  std::vector<TensorSpec> out;
  const auto bytes = [](const TensorSpec& s) {
    return static_cast<double>(std::min(extent_bytes(s), bytes_of(s)));
  };
  for (const Arg& a : run.in) {
    in.push_back(*a.spec);
    const bool updated =
        op.writes(run.params, static_cast<int>(in.size()) - 1, static_cast<int>(run.in.size()));
    if (a.spec->defined) kind.bytes += (updated ? 2 : 1) * bytes(*a.spec);
  }
  for (const Arg& a : run.out) {
    out.push_back(*a.spec);
    kind.bytes += bytes(*a.spec);
  }
  if (op.flops) kind.flops = op.flops(op, run.params, {in, out});
  log.kinds.push_back(std::move(kind));
  return at->second;
}

int Recorder::scope_of(Log& log, const KernelRun& run) {
  const std::shared_ptr<const Scope> here =
      run.scope ? nullptr : log.where.now(last_sequence(), nullptr);
  const Scope& scope = run.scope ? *run.scope : *here;
  const auto [at, is_new] = log.scope_at.try_emplace({scope.module, scope.phase, scope.caller},
                                                     static_cast<int>(log.scopes.size()));
  if (is_new) log.scopes.push_back(scope);
  return at->second;
}

void Recorder::began(const KernelRun&) {
  Log& l = log();
  const std::lock_guard lock(l.mutex);
  l.inside.push_back({now()});
}

void Recorder::ended(const KernelRun& run) {
  const int64_t end = now();
  Log& l = log();
  const std::lock_guard lock(l.mutex);
  if (l.inside.empty()) return;  // begun before the profile was
  const Log::Inside run_was = l.inside.back();
  l.inside.pop_back();
  if (!l.inside.empty()) l.inside.back().inner += end - run_was.begin;
  Run r{.kind = kind_of(l, run), .scope = scope_of(l, run), .thread = l.number};
  r.begin = elapsed(run_was.begin);
  r.end = elapsed(end);
  r.self = end - run_was.begin - run_was.inner;
  r.allocated = static_cast<int64_t>(runtime(run.device).memory_stats(run.device.index).allocated);
  l.runs.push_back(r);
}

void Recorder::began(std::string_view name, RangeKind kind) {
  const int64_t begin = elapsed(now());
  Log& l = log();
  const std::lock_guard lock(l.mutex);
  l.open.push_back(l.spans.size());
  l.spans.push_back({std::string(name), kind, l.number, begin, -1});
}

void Recorder::ended() {
  const int64_t end = elapsed(now());
  Log& l = log();
  const std::lock_guard lock(l.mutex);
  if (l.open.empty()) return;  // begun before the profile was
  l.spans[l.open.back()].end = end;
  l.open.pop_back();
}

void Recorder::start() {
  {
    const std::lock_guard lock(mutex_);
    check(!active_, "profiler: another profile is being taken; stop it first");
    active_ = true;
    logs_.clear();
    steps_.clear();
    start_ = now();
    off_since_ = start_;
    left_out_ = 0;
    ++session_;
  }
  log();  // the thread that starts is the first
}

void Recorder::set_on(bool on) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_on = off_since_ == 0;
    if (on == is_on) return;
    if (on) left_out_ += now() - off_since_;
    off_since_ = on ? 0 : now();
  }
  set_run_watcher(on ? this : nullptr);
  set_range_listener(on ? this : nullptr);
}

void Recorder::note_step() {
  const std::lock_guard lock(mutex_);
  steps_.push_back(elapsed(off_since_ != 0 ? off_since_ : now()));
}

Profile Recorder::stop() {
  set_on(false);
  const std::lock_guard lock(mutex_);
  active_ = false;
  Profile p;
  p.end = elapsed(off_since_);
  p.steps = steps_;
  std::map<std::tuple<std::string, Phase, std::string>, int> scope_at;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, int> kind_at;
  for (const std::shared_ptr<Log>& log : logs_) {
    const std::lock_guard log_lock(log->mutex);
    std::vector<int> kinds;
    std::vector<int> scopes;
    for (Kind& k : log->kinds) {
      const auto [at, is_new] = kind_at.try_emplace({k.op, k.kernel, k.params, k.shapes},
                                                    static_cast<int>(p.kinds.size()));
      kinds.push_back(at->second);
      if (is_new) p.kinds.push_back(std::move(k));
    }
    for (Scope& s : log->scopes) {
      const auto [at, is_new] =
          scope_at.try_emplace({s.module, s.phase, s.caller}, static_cast<int>(p.scopes.size()));
      scopes.push_back(at->second);
      if (is_new) p.scopes.push_back(std::move(s));
    }
    for (Run r : log->runs) {
      r.kind = kinds[static_cast<size_t>(r.kind)];
      r.scope = scopes[static_cast<size_t>(r.scope)];
      p.runs.push_back(r);
    }
    for (Span& s : log->spans) {
      if (s.end < 0) s.end = p.end;
      p.spans.push_back(std::move(s));
    }
    std::ranges::sort(p.runs, {}, [](const Run& r) {
      return std::tuple(r.thread, r.begin, -r.end);  // a run before those inside it
    });
    p.threads.push_back(log->number == 0 ? "main" : fmt::format("thread {}", log->number));
  }
  logs_.clear();
  ++session_;
  const Device cpu = Device::cpu();
  p.facts.emplace_back("CPU", runtime(cpu).properties(0).name);
  p.facts.emplace_back("threads of a kernel", fmt::format("{}", num_threads()));
  return p;
}

}  // namespace

void start_recording() { recorder().start(); }
void set_recording(bool on) { recorder().set_on(on); }
void note_step() { recorder().note_step(); }
Profile stop_recording() { return recorder().stop(); }

}  // namespace mica::profiler
