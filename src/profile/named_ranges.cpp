// Where a thread is, as ranges for the timelines of other profilers: steps, passes, modules, ops.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "mica/autograd/tape.h"
#include "mica/core/range.h"
#include "mica/graph/captured_scopes.h"
#include "mica/op/run_watcher.h"
#include "mica/profile/recorder.h"
#include "mica/profile/slices.h"
#include "mica/runtime/cuda_library.h"

namespace mica {
namespace {

class NamedRanges final : public RunWatcher, public RangeListener {
 public:
  explicit NamedRanges(const CudaLibrary& library)
      : push_(library.push_range), pop_(library.pop_range) {}

  void began(const KernelRun& run) override {
    Open& o = open();
    const std::shared_ptr<const Scope> here =
        run.scope ? nullptr : o.where.now(last_sequence(), nullptr);
    enter(o, run.scope ? *run.scope : *here);
    push(o, run.prepared.op->name, true);
  }
  void ended(const KernelRun&) override { close_named(); }
  void began(std::string_view name, RangeKind) override { push(open(), std::string(name), true); }
  void ended() override { close_named(); }

 private:
  struct Named {
    std::string name;
    bool is_named;  ///< an op or a range, which says when it ends; others end when the next begins
  };
  struct Open {
    std::vector<Named> ranges;
    CapturedScopes where;
    Phase phase = Phase::forward;
    int64_t step = 0;
  };
  static Open& open() {
    thread_local Open mine;
    return mine;
  }

  void push(Open& o, const std::string& name, bool is_named) {
    o.ranges.push_back({name, is_named});
    push_(name.c_str());
  }
  void close(Open& o, size_t keep) {
    for (; o.ranges.size() > keep; o.ranges.pop_back()) pop_();
  }
  void close_named() {
    Open& o = open();
    size_t at = o.ranges.size();
    while (at > 0 && !o.ranges[at - 1].is_named) --at;
    if (at > 0) close(o, at - 1);
  }
  /// Step, pass and module of what comes next. A step ends with its update.
  void enter(Open& o, const Scope& scope) {
    if (o.phase == Phase::update && scope.phase == Phase::forward) {
      ++o.step;
      o.where = {};  // gradients of this step are of its own calls
    }
    o.phase = scope.phase;
    size_t at = o.ranges.size();
    while (at > 0 && !o.ranges[at - 1].is_named) --at;
    std::vector<std::string> names = profiler::parts_of(scope);
    if (at == 0) names.insert(names.begin(), fmt::format("step {}", o.step));
    size_t same = 0;
    while (same < names.size() && at + same < o.ranges.size() &&
           o.ranges[at + same].name == names[same])
      ++same;
    close(o, at + same);
    for (; same < names.size(); ++same) push(o, names[same], false);
  }

  void (*const push_)(const char*);
  void (*const pop_)();
};

}  // namespace

void name_ranges_for(const CudaLibrary& library) {
  static auto& ranges = *new NamedRanges(library);
  profiler::watch_besides(&ranges, &ranges);
}

}  // namespace mica
