#include "mica/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_set>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/profile/recorder.h"
#include "mica/runtime/runtime.h"

namespace mica::profiler {

struct Profiler::Impl {
  Schedule schedule;
  bool running = false;
  int step = 0;  ///< of those since start()
  Profile profile;

  Recording at(int number) const {
    const int cycle = schedule.wait + schedule.warmup + schedule.active;
    if (schedule.active > 0) {
      if (schedule.repeat > 0 && number >= cycle * schedule.repeat) return Recording::off;
      number %= cycle;
    }
    if (number < schedule.wait) return Recording::off;
    return number < schedule.wait + schedule.warmup ? Recording::warming : Recording::on;
  }
};

Profiler::Profiler(const Schedule& schedule) : impl_(std::make_unique<Impl>()) {
  for (const int n : {schedule.wait, schedule.warmup, schedule.active, schedule.repeat})
    check(n >= 0, "profiler: a schedule counts steps, got {}", n);
  impl_->schedule = schedule;
}

Profiler::~Profiler() { stop(); }

void Profiler::start() {
  check(!impl_->running, "profiler: it has been started already");
  start_recording();
  impl_->running = true;
  impl_->step = 0;
  set_recording(impl_->at(0));
  if (impl_->at(0) == Recording::on) note_step();
}

void Profiler::step() {
  check(impl_->running, "profiler: step() is for between start() and stop()");
  const Recording was = impl_->at(impl_->step++);
  const Recording is = impl_->at(impl_->step);
  if (was == Recording::on) note_step();
  set_recording(is);
  if (was != Recording::on && is == Recording::on) note_step();
}

void Profiler::stop() {
  if (!impl_->running) return;
  impl_->running = false;
  impl_->profile = stop_recording();
}

const Profile& Profiler::profile() const {
  check(!impl_->running, "profiler: the profile is there after stop()");
  return impl_->profile;
}

By by_of(const std::string& name) {
  static const std::map<std::string, By> names = {{"op", By::op},
                                                  {"kernel", By::kernel},
                                                  {"module", By::module},
                                                  {"shape", By::shape},
                                                  {"gpu", By::gpu}};
  const auto at = names.find(name);
  check(at != names.end(), "profiler: a table is by op, kernel, module, shape or gpu, got '{}'",
        name);
  return at->second;
}

Peaks peaks_of(Device device, DType dtype) {
  static std::map<std::tuple<DeviceKind, int, DType, bool>, Peaks> known;
  static std::mutex mutex;
  if (device.is_null() || (device.is_cuda() && !cuda_available())) return {};
  // Only tensor cores tell them apart: elsewhere narrow floats are computed as f32.
  if (!device.is_cuda() || !is_floating(dtype)) dtype = DType::f32;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace({device.kind, device.index, dtype, allow_tf32()});
  if (!is_new) return at->second;
  const auto best = [&](const auto& work) {
    double seconds = 1e9;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      work();
      synchronize(device);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      seconds = std::min(seconds, took.count());
    }
    return seconds;
  };
  const NoGrad guard;
  try {
    const int64_t n = device.is_cpu() ? 768 : 8192;
    const Tensor a = ones({n, n}, {.dtype = dtype, .device = device});
    const double flops = 2.0 * static_cast<double>(n * n * n) / best([&] { (void)matmul(a, a); });
    const Tensor large = ones({device.is_cpu() ? 1 << 24 : 1 << 28}, {.device = device});
    const Tensor other = empty_like(large);
    at->second = {
        flops, 2.0 * static_cast<double>(large.numel() * 4) / best([&] { copy_(other, large); })};
  } catch (const OutOfMemory&) {  // no room beside what is profiled: no floors then
  }
  return at->second;
}

double floor_of(const Kind& kind) {
  if (kind.flops == 0 && kind.bytes == 0) return 0;
  const Peaks peaks = peaks_of(kind.device, kind.dtype);
  return peaks.flops > 0 ? std::max(kind.flops / peaks.flops, kind.bytes / peaks.bytes) : 0;
}

std::vector<Cost> costs(const Profile& profile) {
  const bool traced = !profile.device_runs.empty();
  std::map<std::pair<int, int>, Cost> all;
  const auto cost = [&](int kind, int scope) -> Cost& {
    Cost& c = all[{kind, scope}];
    c.kind = kind;
    c.scope = scope;
    return c;
  };
  for (const Run& r : profile.runs) {
    Cost& c = cost(r.kind, r.scope);
    c.calls += 1;
    if (!traced || !profile.kinds[static_cast<size_t>(r.kind)].device.is_cuda()) c.time += r.self;
  }
  std::unordered_set<uint64_t> counted;  // calls that the host made
  for (const Run& r : profile.runs) counted.insert(r.id);
  for (const DeviceRun& r : profile.device_runs) {
    Cost& c = cost(r.kind, r.scope);
    c.time += r.end - r.begin;
    const bool is_new = r.in_graph || !counted.contains(r.sender);
    c.calls += is_new && r.is_first;
  }
  std::vector<Cost> list;
  for (const auto& [key, c] : all) list.push_back(c);
  return list;
}

std::vector<Row> rows(const Profile& profile, By by) {
  std::map<std::pair<std::string, std::string>, Row> groups;
  double total = 0;
  const auto add = [&](std::pair<std::string, std::string> key, const Kind& k, int64_t calls,
                       int64_t time, bool with_floor) {
    Row& row = groups[std::move(key)];
    const double seconds = static_cast<double>(time) * 1e-9;
    const auto n = static_cast<double>(calls);
    row.calls += calls;
    row.seconds += seconds;
    total += seconds;
    if (!with_floor) return;
    row.flops += k.flops * n;
    row.bytes += k.bytes * n;
    row.floor += floor_of(k) * n;
  };
  if (by == By::gpu) {
    for (const DeviceRun& r : profile.device_runs)
      add({profile.device_names[static_cast<size_t>(r.name)], ""},
          profile.kinds[static_cast<size_t>(r.kind)], 1, r.end - r.begin, false);
  } else {
    for (const Cost& c : costs(profile)) {
      const Kind& k = profile.kinds[static_cast<size_t>(c.kind)];
      const std::string& module = profile.scopes[static_cast<size_t>(c.scope)].module;
      add(by == By::op       ? std::pair(k.op, std::string())
          : by == By::kernel ? std::pair(k.op, k.kernel)
          : by == By::shape  ? std::pair(k.op, k.shapes)
                             : std::pair(module.empty() ? "(none)" : module, std::string()),
          k, c.calls, c.time, true);
    }
  }
  std::vector<Row> all;
  for (auto& [key, row] : groups) {
    row.name = key.first;
    row.detail = key.second;
    row.share = total > 0 ? row.seconds / total : 0;
    all.push_back(std::move(row));
  }
  std::ranges::stable_sort(all, std::greater(), &Row::seconds);
  return all;
}

std::string table(const Profile& profile, By by, int most) {
  const std::vector<Row> all = rows(profile, by);
  std::string text = fmt::format("{:>9} {:>6} {:>8} {:>10} {:>9} {:>9} {:>8}  {}\n", "ms", "%",
                                 "calls", "µs a call", "GFLOP/s", "GB/s", "of floor",
                                 by == By::module ? "module"
                                 : by == By::gpu  ? "GPU kernel"
                                                  : "op");
  for (size_t i = 0; i < all.size() && i < static_cast<size_t>(most); ++i) {
    const Row& r = all[i];
    const auto rate = [&](double amount) {
      return r.seconds > 0 && amount > 0 ? fmt::format("{:.1f}", amount / r.seconds * 1e-9) : "";
    };
    text += fmt::format("{:>9.3f} {:>6.1f} {:>8} {:>10.2f} {:>9} {:>9} {:>8}  {}{}{}\n",
                        r.seconds * 1e3, 100 * r.share, r.calls,
                        r.calls > 0 ? r.seconds * 1e6 / static_cast<double>(r.calls) : 0,
                        rate(r.flops), rate(r.bytes),
                        r.floor > 0 && r.seconds > 0
                            ? fmt::format("{:.0f} %", std::min(999.0, 100 * r.floor / r.seconds))
                            : "",
                        r.name, r.detail.empty() ? "" : "  ", r.detail);
  }
  if (all.size() > static_cast<size_t>(most))
    text += fmt::format("and {} more\n", all.size() - static_cast<size_t>(most));
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  for (const DeviceTime& t : device_times(profile)) {
    const auto percent = [&](int64_t part) {
      return t.work > 0 ? 100 * static_cast<double>(part) / static_cast<double>(t.work) : 0;
    };
    text += fmt::format(
        "\n{} (times by {}): busy for {:.3f} ms; of its work {:.1f} % is known to be of an op, "
        "{:.1f} % of a module or of the data, loss or update around them\n",
        t.device, profile.device_source, ms(t.busy), percent(t.attributed), percent(t.in_modules));
    for (const auto& [why, time] : t.gaps)
      text += fmt::format("{:>9.3f} ms of nothing: {}\n", ms(time), why);
  }
  if (profile.dropped > 0)
    text += fmt::format("{} pieces of work of the GPU did not fit in memory and are missing\n",
                        profile.dropped);
  return text;
}

}  // namespace mica::profiler
