// How a plan runs.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "mica/autograd/anomaly.h"
#include "mica/core/range.h"
#include "mica/graph/plan.h"
#include "mica/graph/value_bytes.h"
#include "mica/op/run_watcher.h"
#include "mica/op/settings.h"
#include "mica/ops/copy/copy.h"
#include "mica/runtime/device_trace.h"
#include "mica/runtime/op_scope.h"

namespace mica {
namespace {

std::atomic<Plan::Watcher> g_watcher{nullptr};

MemoryRange range_of(const Tensor& t, bool written) {
  const Storage& s = *t.storage();
  return {s.data(), s.data() + s.bytes(), written};
}

}  // namespace

void Plan::run_step(const Lane& lane, int i) const {
  const Step& step = steps_[static_cast<size_t>(i)];
  const Lane::Bound& bound = lane.steps[static_cast<size_t>(i)];
  const OpScope scope(step.op->name);
  DeviceRuntime& rt = runtime(captured_.device);
  Encoder* encoder = rt.encoder(captured_.device.index);
  const WatchedRun watched({*step.prepared, step.params.ref().data, bound.in, bound.out,
                            captured_.device, step.scope.get()});
  try {
    step.prepared->run(step.params.ref().data,
                       {bound.in, bound.out, bound.workspace, encoder, bound.kept});
  } catch (const Error& error) {
    rethrow_at(error, step.scope.get());
  }
  rt.op_launched(step.op->name, captured_.device.index);
}

void Plan::run_watched(const Lane& lane, int i) const {
  const Step& step = steps_[static_cast<size_t>(i)];
  const Lane::Bound& bound = lane.steps[static_cast<size_t>(i)];
  const auto finite = [](const Arg& a) { return not_finite(a.data, *a.spec).empty(); };
  const ParamsRef params = step.params.ref();
  // An output may be written over an input: look first.
  const bool watched = !step.in.empty() && params.info->finite(params.data) &&
                       std::all_of(bound.in.begin(), bound.in.end(), finite);
  run_step(lane, i);
  if (!watched) return;
  const auto look = [&](const Arg& a, const char* what, size_t which) {
    if (finite(a)) return;
    constexpr int kMost = 5;
    const Graph& g = graph_;
    std::string history = step.op->name;
    int at = i;
    for (int n = 1; n < kMost; ++n) {
      int from = at - 1;
      const auto feeds = [&](ValueId id) {
        const std::vector<ValueId>& in = steps_[static_cast<size_t>(at)].in;
        return std::any_of(in.begin(), in.end(),
                           [&](ValueId v) { return v != kNoValue && g.root(v) == id; });
      };
      while (from >= 0 && std::none_of(steps_[static_cast<size_t>(from)].out.begin(),
                                       steps_[static_cast<size_t>(from)].out.end(), feeds))
        --from;
      if (from < 0) break;
      history += fmt::format(" ← {}", steps_[static_cast<size_t>(from)].op->name);
      at = from;
    }
    fail(
        "{}: {} {} ({}) is {} though its inputs are finite; it is a step of a compiled function, "
        "{}",
        step.op->name, what, which, *a.spec, not_finite(a.data, *a.spec), history);
  };
  for (size_t k = 0; k < bound.out.size(); ++k) look(bound.out[k], "output", k);
  const int n = static_cast<int>(bound.in.size());
  for (int k = 0; k < n; ++k)
    if (step.op->writes(params.data, k, n))
      look(bound.in[static_cast<size_t>(k)], "written input", static_cast<size_t>(k));
}

void Plan::copy_in(const Lane& lane, ValueId slot, const Tensor& argument) const {
  const TensorSpec& spec = graph_[slot].spec;
  const Tensor dense = contiguous(
      argument, spec.is_channels_last() ? MemoryFormat::channels_last : MemoryFormat::contiguous);
  runtime(spec.device).copy(address(lane, slot), dense.data(), bytes_of(spec), spec.device.index);
}

Tensor Plan::copy_out(const Lane& lane, ValueId id, std::span<const Tensor> inputs) const {
  const Graph& g = graph_;
  const ValueId root = g.root(id);
  const TensorSpec& spec = g[id].spec;
  if (g[root].kind == Value::Kind::external)
    return view_of(g[root].tensor, spec, g[root].tensor.offset() + offset_in_root(g, id));
  if (g[root].kind == Value::Kind::input) {
    // A view of an argument is one outside too, where the argument lies as its slot does.
    const size_t i =
        static_cast<size_t>(std::find(g.inputs.begin(), g.inputs.end(), root) - g.inputs.begin());
    if (offset_in_root(g, id) == 0 && spec == g[root].spec) return inputs[i];
    if (inputs[i].strides() == g[root].spec.strides)
      return view_of(inputs[i], spec, inputs[i].offset() + offset_in_root(g, id));
  }
  if (spec.device.is_null())
    return empty(TensorSpec::contiguous(spec.shape, spec.dtype, spec.device));
  if (spec.is_contiguous() || spec.is_channels_last()) {
    Tensor result = empty(spec);
    if (result.numel() > 0)
      runtime(spec.device)
          .copy(result.data(), address(lane, id), bytes_of(spec), spec.device.index);
    return result;
  }
  return clone(in_arena(lane, id));
}

Tensor Plan::in_arena(const Lane& lane, ValueId id) const {
  const TensorSpec& spec = graph_[id].spec;
  auto impl = make_ref<TensorImpl>();
  impl->spec = spec;
  impl->spec.aligned =
      reinterpret_cast<uintptr_t>(address(lane, id)) % 16 == 0;  // a view need not be
  impl->storage = make_ref<Storage>(address(lane, id), bytes_of(spec), spec.device,
                                    is_kept(id) ? kept_ : lane.arena);
  return Tensor(std::move(impl));
}

Tensors Plan::copy_out(const Lane& lane, std::span<const Tensor> inputs) const {
  const Graph& g = graph_;
  Tensors results;
  const size_t count = g.outputs.size() - captured_.write_backs.size();
  results.reserve(count);
  std::map<ValueId, Tensor> whole;  // of which several outputs are views
  for (size_t i = 0; i < count; ++i) {
    const ValueId id = g.outputs[i];
    const ValueId root = g.root(id);
    const auto shares = [&](ValueId other) { return g.root(other) == root; };
    const bool dense = g[root].spec.is_contiguous() || g[root].spec.is_channels_last();
    if (g[root].kind != Value::Kind::computed || g[root].spec.device.is_null() || !dense ||
        std::count_if(g.outputs.begin(), g.outputs.end(), shares) < 2) {
      results.push_back(copy_out(lane, id, inputs));
      continue;
    }
    Tensor& all = whole[root];
    if (!all.defined()) all = copy_out(lane, root, inputs);
    results.push_back(view_of(all, g[id].spec, all.offset() + offset_in_root(g, id)));
  }
  return results;
}

bool Plan::is_refreshed() const {
  return refreshed_ && std::all_of(depends_on_.begin(), depends_on_.end(), [](const Dependence& d) {
           return d.storage->version() == d.version && !d.storage->is_handed_out();
         });
}

/// Threads that a fork left behind may hold the lock, or have been amid the prologue.
void Plan::begin_child() {
  static auto& mutex = *new Mutex;
  const std::lock_guard lock(mutex);
  if (process_ == forks()) return;
  std::construct_at(&kept_mutex_);
  refreshed_ = false;
  process_ = forks();
}

void Plan::keep(const Lane& lane) const {
  for (size_t s = static_cast<size_t>(prologue_); s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    if (!step.keeps) continue;
    const Lane::Bound& bound = lane.steps[s];
    step.prepared->keep(step.params.ref().data,
                        {bound.in, bound.out, bound.workspace,
                         runtime(captured_.device).encoder(captured_.device.index), bound.kept});
  }
}

std::shared_lock<std::shared_mutex> Plan::refresh(Lane& lane) {
  if (!kept_) return {};
  if (process_ != forks()) begin_child();
  std::shared_lock reading(kept_mutex_);
  if (captured_.device.is_cpu() && is_refreshed()) return reading;
  reading.unlock();
  {
    const std::unique_lock writing(kept_mutex_);
    kept_->use_on(current_stream(captured_.device));
    if (!is_refreshed()) {
      for (Dependence& d : depends_on_) d.version = d.storage->version();
      for (int i = 0; i < prologue_; ++i)
        detect_anomaly() ? run_watched(lane, i) : run_step(lane, i);
      keep(lane);
      refreshed_ = true;
    }
  }
  reading.lock();
  return reading;
}

void Plan::find_outside_memory() {
  std::map<const Storage*, bool> found;
  for (const Value& v : graph_.values)
    if (v.kind == Value::Kind::external && v.tensor.defined())
      found.try_emplace(v.tensor.storage().get(), false);
  for (const Tensor& t : captured_.written) found[t.storage().get()] = true;
  for (const auto& [storage, written] : found) {
    writes_outside_ = writes_outside_ || written;
    if (storage->data() && storage->bytes() > 0)
      outside_.push_back({storage->data(), storage->data() + storage->bytes(), written});
  }
  std::sort(outside_.begin(), outside_.end(),
            [](const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; });
}

std::span<const MemoryRange> Plan::uses(std::span<const Tensor> arguments,
                                        std::vector<MemoryRange>& own) const {
  if (pure_) return outside_;
  // The `.grad` that a run reads may be any memory that others write to: this stands for it.
  static constexpr std::byte any_gradient{};
  const auto reads = [](const Input& i) { return i.argument < 0; };
  std::vector<MemoryRange>& ranges = own = outside_;
  ranges.push_back(
      {&any_gradient, &any_gradient + 1, std::ranges::any_of(captured_.inputs, reads)});
  // Who sets the `.grad` of a tensor does so to none that another run uses.
  const bool sets_grads = !std::ranges::all_of(captured_.effects, &Effect::keeps);
  for (MemoryRange& range : ranges) range.written = range.written || sets_grads;
  for (const Tensor& t : arguments)
    if (sets_grads && t.requires_grad()) ranges.push_back(range_of(t, true));
  for (const auto& [input, output] : captured_.write_backs) {
    const int argument = captured_.inputs[static_cast<size_t>(input)].argument;
    if (argument >= 0) ranges.push_back(range_of(arguments[static_cast<size_t>(argument)], true));
  }
  return ranges;
}

bool Plan::overlaps_a_write(const Tensors& inputs) const {
  const auto is_written_back = [&](size_t i) {
    return std::any_of(captured_.write_backs.begin(), captured_.write_backs.end(),
                       [&](const auto& w) { return static_cast<size_t>(w.first) == i; });
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const MemoryRange r = range_of(inputs[i], is_written_back(i));
    // Storages of the outside do not overlap each other, but for those nobody writes to.
    auto at = std::upper_bound(outside_.begin(), outside_.end(), r.begin,
                               [](const std::byte* p, const MemoryRange& o) { return p < o.end; });
    for (; at != outside_.end() && at->begin < r.end; ++at)
      if (at->meets(r) && (r.written || at->written)) return true;
    for (size_t j = 0; j < inputs.size() && r.written; ++j)
      if (j != i && r.meets(range_of(inputs[j], false))) return true;
  }
  return false;
}

bool Plan::accepts(std::span<const Tensor> arguments) const {
  if (!captured_.guards.hold()) return false;
  for (const ArgumentInPlace& a : captured_.in_place)
    if (!a.is(arguments[static_cast<size_t>(a.argument)])) return false;
  if (captured_.companion && !captured_.companion->broken().empty()) return false;
  const bool reads = std::any_of(captured_.inputs.begin(), captured_.inputs.end(),
                                 [](const Input& i) { return i.argument < 0; });
  if (!reads && !writes_outside_ && captured_.write_backs.empty()) return true;
  const Tensors inputs = gather(arguments);
  for (size_t i = 0; i < inputs.size() && reads; ++i)
    if (!inputs[i].defined() || slot_spec(inputs[i]) != graph_[graph_.inputs[i]].spec) return false;
  return !overlaps_a_write(inputs);
}

std::vector<std::string> Plan::refuses(std::span<const Tensor> arguments) const {
  std::vector<std::string> why = captured_.guards.broken();
  if (captured_.companion)
    if (std::string text = captured_.companion->broken(); !text.empty())
      why.push_back(std::move(text));
  for (const ArgumentInPlace& a : captured_.in_place)
    if (static_cast<size_t>(a.argument) < arguments.size() &&
        !a.is(arguments[static_cast<size_t>(a.argument)]))
      why.push_back(fmt::format("argument {} lies elsewhere, and the function writes to its memory",
                                a.argument));
  for (size_t i = 0; i < captured_.inputs.size(); ++i) {
    const Input& input = captured_.inputs[i];
    if (input.argument >= 0) continue;
    const Tensor now = input.read();
    if (!now.defined()) {
      why.push_back(fmt::format("{} is gone", input.name));
    } else if (slot_spec(now) != graph_[graph_.inputs[i]].spec) {
      why.push_back(fmt::format("{} is {} now", input.name, now.spec()));
    }
  }
  return why;
}

Tensors Plan::gather(std::span<const Tensor> arguments) const {
  Tensors inputs;
  inputs.reserve(captured_.inputs.size());
  for (const Input& i : captured_.inputs)
    inputs.push_back(i.argument >= 0 ? arguments[static_cast<size_t>(i.argument)] : i.read());
  return inputs;
}

void Plan::set_watcher(Watcher watcher) { g_watcher.store(watcher, std::memory_order_release); }

Replay& Plan::replay_of(int times) {
  const int64_t session = device_tracing();
  if (traced_in_ != session) traced_.clear();
  traced_in_ = session;
  std::unique_ptr<Replay>& replay = session > 0  ? traced_[times]
                                    : times == 1 ? replay_
                                                 : several_[times];
  if (!replay) {
    const Range range("recording a graph", RangeKind::launch);
    replay = record(times);
  }
  return *replay;
}

Tensors Plan::run(std::span<const Tensor> arguments, int times, Tensors* kept) {
  check(times >= 1, "compile: expected to run at least once, got {} times", times);
  // The memory of an argument's slot, or of a `.grad`, is not what it was when a run ends.
  const auto computed = [](const Effect& e) { return e.output >= 0; };
  check<Unsupported>(
      times == 1 || (captured_.inputs.empty() &&
                     std::none_of(captured_.effects.begin(), captured_.effects.end(), computed)),
      "compile: only a function without arguments that leaves no gradients behind "
      "can run several times at once");
  const NoGrad guard;
  if (const Watcher watcher = g_watcher.load(std::memory_order_acquire)) [[unlikely]]
    watcher(*this);
  adopt_num_threads();
  std::vector<MemoryRange> own;
  const ArenaSlot slot(captured_.device, uses(arguments, own));
  Lane& lane = this->lane(slot.index());
  if (!captured_.device.is_cpu()) lane.arena->use_on(current_stream(captured_.device));
  const Tensors inputs = gather(arguments);
  if (!inputs.empty()) {
    const Range range("copying arguments of a compiled function", RangeKind::launch);
    for (size_t i = 0; i < inputs.size(); ++i) copy_in(lane, graph_.inputs[i], inputs[i]);
  }
  std::shared_lock<std::shared_mutex> kept_lock;
  {
    // Also where a step fails: those before it have written.
    struct Bump {
      const std::vector<Tensor>& written;
      ~Bump() {
        for (const Tensor& t : written) t.storage()->bump_version();
      }
    } const bump{captured_.written};
    if (!captured_.device.is_null()) kept_lock = refresh(lane);
    const int count = captured_.device.is_null() ? 0 : static_cast<int>(steps());
    if (replay_ && !detect_anomaly() && device_tracing() >= 0) {
      replay_of(times).launch();
    } else {
      for (int i = 0; i < count * times; ++i)
        detect_anomaly() ? run_watched(lane, prologue_ + i % count)
                         : run_step(lane, prologue_ + i % count);
    }
  }
  // What a slot was filled from is given what the function wrote, before it is given back itself.
  for (const auto& [input, output] : captured_.write_backs) {
    const Tensor& to = inputs[static_cast<size_t>(input)];
    if (!to.device().is_null() && to.numel() > 0)
      copy_(to, in_arena(lane, graph_.outputs[static_cast<size_t>(output)]));
  }
  Tensors results;
  if (graph_.outputs.size() > captured_.write_backs.size()) {
    const Range range("copying results of a compiled function", RangeKind::launch);
    results = copy_out(lane, inputs);
  }
  for (int t = 0; t < times; ++t)
    for (const Effect& e : captured_.effects) {
      const Tensor& value = e.output >= 0 ? results[static_cast<size_t>(e.output)] : e.tensor;
      if (!e.keeps) {
        e.apply(value);
      } else if (kept) {
        kept->push_back(value);
      }
    }
  results.resize(captured_.results);
  return results;
}

void Plan::get_ready() {
  if (captured_.device.is_null()) return;
  const NoGrad guard;
  adopt_num_threads();
  const ArenaSlot slot(captured_.device, outside_);
  Lane& lane = this->lane(slot.index());
  if (!captured_.device.is_cpu()) lane.arena->use_on(current_stream(captured_.device));
  refresh(lane);
}

double Plan::seconds_of_step(size_t i) const {
  constexpr int kInARow = 20;
  constexpr size_t kSamples = 7;
  const Device device = captured_.device;
  const int step = prologue_ + static_cast<int>(i);
  const ArenaSlot slot(device);
  const Lane& lane = this->lane(slot.index());
  const Stream stream = current_stream(device);
  lane.arena->use_on(stream);
  const std::vector<std::vector<Access>> in_a_row(kInARow, accesses().at(i));
  const auto replay =
      runtime(device).record(device.index, schedule(in_a_row), [&](int) { run_step(lane, step); });
  const auto all = [&] {
    if (replay) {
      replay->launch();
    } else {
      for (int k = 0; k < kInARow; ++k) run_step(lane, step);
    }
  };
  all();
  std::array<double, kSamples> times;
  for (double& time : times) {
    Event start;
    Event end;
    if (replay) all();  // the device is busy while the timed ones are sent
    start.record(stream);
    all();
    end.record(stream);
    time = end.elapsed_ms(start) * 1e-3 / kInARow;
  }
  std::sort(times.begin(), times.end());
  return times[kSamples / 2];
}

}  // namespace mica
