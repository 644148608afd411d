#include "mica/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>

#include "mica/core/check.h"
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

  bool wants(int at) const {
    if (schedule.active == 0) return at >= schedule.wait + schedule.warmup;
    const int cycle = schedule.wait + schedule.warmup + schedule.active;
    if (schedule.repeat > 0 && at >= cycle * schedule.repeat) return false;
    return at % cycle >= schedule.wait + schedule.warmup;
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
  set_recording(impl_->wants(0));
  if (impl_->wants(0)) note_step();
}

void Profiler::step() {
  check(impl_->running, "profiler: step() is for between start() and stop()");
  const bool was = impl_->wants(impl_->step++);
  const bool is = impl_->wants(impl_->step);
  if (was) note_step();
  if (was != is) set_recording(is);
  if (!was && is) note_step();
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
  static const std::map<std::string, By> names = {
      {"op", By::op}, {"kernel", By::kernel}, {"module", By::module}, {"shape", By::shape}};
  const auto at = names.find(name);
  check(at != names.end(), "profiler: a table is by op, kernel, module or shape, got '{}'", name);
  return at->second;
}

Peaks peaks_of(Device device) {
  static std::map<std::pair<DeviceKind, int>, Peaks> known;
  static std::mutex mutex;
  if (device.is_null()) return {};
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace({device.kind, device.index});
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
  const int64_t n = device.is_cpu() ? 768 : 8192;
  const Tensor a = ones({n, n}, {.device = device});
  at->second.flops = 2.0 * static_cast<double>(n * n * n) / best([&] { (void)matmul(a, a); });
  const Tensor large = ones({device.is_cpu() ? 1 << 24 : 1 << 28}, {.device = device});
  const Tensor other = empty_like(large);
  at->second.bytes =
      2.0 * static_cast<double>(large.numel() * 4) / best([&] { copy_(other, large); });
  return at->second;
}

double floor_of(const Kind& kind) {
  const Peaks peaks = peaks_of(kind.device);
  return peaks.flops > 0 ? std::max(kind.flops / peaks.flops, kind.bytes / peaks.bytes) : 0;
}

std::vector<Row> rows(const Profile& profile, By by) {
  std::map<std::pair<std::string, std::string>, Row> groups;
  double total = 0;
  std::vector<double> floors;
  for (const Kind& k : profile.kinds) floors.push_back(floor_of(k));
  for (const Run& r : profile.runs) {
    const Kind& k = profile.kinds[static_cast<size_t>(r.kind)];
    const Scope& s = profile.scopes[static_cast<size_t>(r.scope)];
    std::pair<std::string, std::string> key;
    if (by == By::op) key = {k.op, ""};
    if (by == By::kernel) key = {k.op, k.kernel};
    if (by == By::shape) key = {k.op, k.shapes};
    if (by == By::module) key = {s.module.empty() ? "(none)" : s.module, ""};
    Row& row = groups[key];
    const double seconds = static_cast<double>(r.self) * 1e-9;
    row.calls += 1;
    row.seconds += seconds;
    row.flops += k.flops;
    row.bytes += k.bytes;
    row.floor += floors[static_cast<size_t>(r.kind)];
    total += seconds;
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
  std::string text =
      fmt::format("{:>9} {:>6} {:>8} {:>10} {:>9} {:>9} {:>8}  {}\n", "ms", "%", "calls",
                  "µs a call", "GFLOP/s", "GB/s", "of floor", by == By::module ? "module" : "op");
  for (size_t i = 0; i < all.size() && i < static_cast<size_t>(most); ++i) {
    const Row& r = all[i];
    const auto rate = [&](double amount) {
      return r.seconds > 0 && amount > 0 ? fmt::format("{:.1f}", amount / r.seconds * 1e-9) : "";
    };
    text +=
        fmt::format("{:>9.3f} {:>6.1f} {:>8} {:>10.2f} {:>9} {:>9} {:>8}  {}{}{}\n",
                    r.seconds * 1e3, 100 * r.share, r.calls,
                    r.seconds * 1e6 / static_cast<double>(r.calls), rate(r.flops), rate(r.bytes),
                    r.floor > 0 && r.seconds > 0
                        ? fmt::format("{:.0f} %", std::min(999.0, 100 * r.floor / r.seconds))
                        : "",
                    r.name, r.detail.empty() ? "" : "  ", r.detail);
  }
  if (all.size() > static_cast<size_t>(most))
    text += fmt::format("and {} more\n", all.size() - static_cast<size_t>(most));
  return text;
}

}  // namespace mica::profiler
