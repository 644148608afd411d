// How a plan runs.
#include <algorithm>
#include <array>

#include "mica/autograd/anomaly.h"
#include "mica/graph/plan.h"
#include "mica/graph/value_bytes.h"
#include "mica/op/settings.h"
#include "mica/ops/copy/copy.h"
#include "mica/runtime/op_scope.h"

namespace mica {

void Arena::use_on(const Stream& stream) {
  if (stream == last_stream) return;
  Event done;
  done.record(last_stream);
  stream.wait(done);
  const Device device = stream.device();
  runtime(device).record_stream(storage->data(), device.index, stream.state());
  last_stream = stream;
}

void Plan::run_step(int i) const {
  const Step& step = steps_[static_cast<size_t>(i)];
  const OpScope scope(step.op->name);
  DeviceRuntime& rt = runtime(captured_.device);
  Encoder* encoder = rt.encoder(captured_.device.index);
  step.prepared->run(
      step.params.ref().data,
      {step.in_args, step.out_args, arena_of(i)->storage->data() + step.workspace_offset, encoder});
  rt.op_launched(step.op->name, captured_.device.index);
}

void Plan::run_watched(int i) {
  const Step& step = steps_[static_cast<size_t>(i)];
  const auto finite = [](const Arg& a) { return not_finite(a.data, *a.spec).empty(); };
  const ParamsRef params = step.params.ref();
  // An output may be written over an input: look first.
  const bool watched = !step.in.empty() && params.info->finite(params.data) &&
                       std::all_of(step.in_args.begin(), step.in_args.end(), finite);
  run_step(i);
  if (!watched) return;
  const auto look = [&](const Arg& a, const char* what, size_t which) {
    if (finite(a)) return;
    constexpr int kMost = 5;
    const Graph& g = captured_.graph;
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
  for (size_t k = 0; k < step.out_args.size(); ++k) look(step.out_args[k], "output", k);
  const int n = static_cast<int>(step.in_args.size());
  for (int k = 0; k < n; ++k)
    if (step.op->writes(params.data, k, n))
      look(step.in_args[static_cast<size_t>(k)], "written input", static_cast<size_t>(k));
}

void Plan::copy_in(ValueId slot, const Tensor& argument) {
  const TensorSpec& spec = captured_.graph[slot].spec;
  const Tensor dense = contiguous(
      argument, spec.is_channels_last() ? MemoryFormat::channels_last : MemoryFormat::contiguous);
  runtime(spec.device).copy(address(slot), dense.data(), bytes_of(spec), spec.device.index);
}

Tensor Plan::copy_out(ValueId id, std::span<const Tensor> arguments) {
  const Graph& g = captured_.graph;
  const ValueId root = g.root(id);
  if (g[root].kind == Value::Kind::external)
    return view_of(g[root].tensor, g[id].spec, g[root].tensor.offset() + offset_in_root(g, id));
  for (size_t i = 0; i < g.inputs.size(); ++i)
    if (g.inputs[i] == id) return arguments[i];
  const TensorSpec& spec = g[id].spec;
  if (spec.device.is_null())
    return empty(TensorSpec::contiguous(spec.shape, spec.dtype, spec.device));
  if (spec.is_contiguous() || spec.is_channels_last()) {
    Tensor result = empty(spec);
    if (result.numel() > 0)
      runtime(spec.device).copy(result.data(), address(id), bytes_of(spec), spec.device.index);
    return result;
  }
  // A strided view of the arena: seen as a tensor, then copied.
  auto impl = make_ref<TensorImpl>();
  impl->spec = spec;
  impl->storage =
      make_ref<Storage>(address(id), bytes_of(spec), spec.device, is_kept(root) ? kept_ : arena_);
  return clone(Tensor(std::move(impl)));
}

void Plan::refresh() {
  if (!kept_) return;
  kept_->use_on(current_stream(captured_.device));
  const bool current = std::all_of(depends_on_.begin(), depends_on_.end(), [](const Dependence& d) {
    return d.storage->version() == d.version && !d.storage->is_handed_out();
  });
  if (refreshed_ && current) return;
  for (Dependence& d : depends_on_) d.version = d.storage->version();
  for (int i = 0; i < prologue_; ++i) detect_anomaly() ? run_watched(i) : run_step(i);
  refreshed_ = true;
}

Tensors Plan::run(std::span<const Tensor> arguments, int times) {
  check(times >= 1, "compile: expected to run at least once, got {} times", times);
  // The memory of an argument's slot, or of a `.grad`, is not what it was when a run ends.
  check<Unsupported>(times == 1 || (arguments.empty() && captured_.grad_of.empty()),
                     "compile: only a function without arguments that leaves no gradients behind "
                     "can run several times at once");
  const NoGrad guard;
  adopt_num_threads();
  const std::lock_guard lock(arena_->mutex);
  arena_->use_on(current_stream(captured_.device));
  for (size_t i = 0; i < arguments.size(); ++i) copy_in(captured_.graph.inputs[i], arguments[i]);
  if (!captured_.device.is_null()) refresh();
  const int count = captured_.device.is_null() ? 0 : static_cast<int>(steps());
  if (replay_ && !detect_anomaly()) {
    std::unique_ptr<Replay>& replay = times == 1 ? replay_ : several_[times];
    if (!replay) replay = record(times);
    replay->launch();
  } else {
    for (int i = 0; i < count * times; ++i)
      detect_anomaly() ? run_watched(prologue_ + i % count) : run_step(prologue_ + i % count);
  }
  for (const Tensor& t : captured_.written) t.storage()->bump_version();
  Tensors results;
  for (const ValueId id : captured_.graph.outputs) results.push_back(copy_out(id, arguments));
  for (size_t i = 0; i < captured_.grad_of.size(); ++i)
    captured_.grad_of[i].set_grad(results[captured_.results + i]);
  results.resize(captured_.results);
  return results;
}

double Plan::seconds_of_step(size_t i) const {
  constexpr int kInARow = 20;
  constexpr size_t kSamples = 7;
  const Device device = captured_.device;
  const int step = prologue_ + static_cast<int>(i);
  const std::lock_guard lock(arena_->mutex);
  const Stream stream = current_stream(device);
  arena_->use_on(stream);
  const std::vector<std::vector<Access>> in_a_row(kInARow, accesses().at(i));
  const auto replay =
      runtime(device).record(device.index, schedule(in_a_row), [&](int) { run_step(step); });
  const auto all = [&] {
    if (replay) {
      replay->launch();
    } else {
      for (int k = 0; k < kInARow; ++k) run_step(step);
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
