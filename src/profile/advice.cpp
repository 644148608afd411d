// What stands out in a profile, in words.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "mica/core/check.h"
#include "mica/profile/profile.h"

namespace mica::profiler {
namespace {

constexpr double kWorthSaying = 0.05;  // of the time

/// Nanoseconds of a thread that lie in none of these stretches, which are in order of their
/// beginnings and may overlap.
int64_t outside_of(std::vector<std::pair<int64_t, int64_t>> stretches, int64_t end) {
  std::ranges::sort(stretches);
  int64_t covered = 0;
  int64_t until = 0;
  for (const auto& [from, to] : stretches) {
    covered += std::max<int64_t>(0, to - std::max(from, until));
    until = std::max(until, to);
  }
  return end - covered;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

constexpr const char* kData =
    "More workers load in parallel (Loader's `workers`), and a data set that fits in memory can be "
    "kept on the device (`resident`).";
constexpr const char* kCopies =
    "A data set that fits in memory can be kept on the device (`resident`), and a loader with a "
    "`device` copies from pinned memory while the program goes on.";
constexpr const char* kWait =
    "A value is read in the loop (`item()`, `to_host`, printing a tensor). Read it every few "
    "steps, "
    "or keep sums on the device.";
constexpr const char* kCalls =
    "`compile` makes a step one call, and several steps one launch where nothing comes from the "
    "host in between; larger batches make each op's work outweigh its call.";

/// What the main thread's time goes to, where no device was seen.
void add_host(const Profile& profile, std::vector<std::string>& lines) {
  const auto whole = static_cast<double>(profile.end);
  const int thread = profile.runs.front().thread;
  std::map<RangeKind, double> waited;
  std::vector<std::pair<int64_t, int64_t>> busy;
  for (const Span& s : profile.spans) {
    if (s.thread != thread) continue;
    waited[s.kind] += static_cast<double>(s.end - s.begin);
    if (s.kind != RangeKind::user && s.kind != RangeKind::step) busy.emplace_back(s.begin, s.end);
  }
  for (const Run& r : profile.runs)
    if (r.thread == thread) busy.emplace_back(r.begin, r.end);
  if (const double share = waited[RangeKind::data] / whole; share > kWorthSaying)
    lines.push_back(
        fmt::format("Waiting for data takes {} of the time. {}", percent(share), kData));
  if (const double share = waited[RangeKind::wait] / whole; share > kWorthSaying)
    lines.push_back(
        fmt::format("The host waits for the device for {} of the time. {}", percent(share), kWait));
  const double idle = static_cast<double>(outside_of(std::move(busy), profile.end)) / whole;
  if (idle > 0.25)
    lines.push_back(fmt::format(
        "No kernel runs for {} of the time: it goes to the program and to calling the ops. {}",
        percent(idle), kCalls));
}

/// Why a device did nothing.
void add_device(const DeviceTime& t, std::vector<std::string>& lines) {
  int64_t span = t.busy;
  for (const auto& [why, time] : t.gaps) span += time;
  for (const auto& [why, time] : t.gaps) {
    const double share = static_cast<double>(time) / static_cast<double>(span);
    if (share <= kWorthSaying) continue;
    if (why == kWaitingForBatch) {
      lines.push_back(fmt::format("Waiting for data: {} is idle for {} of the time meanwhile. {}",
                                  t.device, percent(share), kData));
    } else if (why == kHostWaited) {
      lines.push_back(
          fmt::format("The host waits for the device, and then the device for the host: {} is idle "
                      "for {} of the time. {}",
                      t.device, percent(share), kWait));
    } else if (why == kWithinGraph) {
      if (share > 0.25)
        lines.push_back(
            fmt::format("{} is idle for {} of the time between the kernels of compiled steps: they "
                        "are many and "
                        "short. A larger batch gives each more to do.",
                        t.device, percent(share)));
    } else {
      const bool copies = why.starts_with("copying from");
      lines.push_back(fmt::format("{} is idle for {} of the time: {}. {}", t.device, percent(share),
                                  why, copies ? kCopies : kCalls));
    }
  }
}

}  // namespace

std::vector<std::string> advice(const Profile& profile) {
  std::vector<std::string> lines;
  if (profile.end <= 0 || (profile.runs.empty() && profile.device_runs.empty())) return lines;
  if (profile.device_runs.empty()) add_host(profile, lines);
  for (const DeviceTime& t : device_times(profile)) add_device(t, lines);
  double total = 0;
  double copies = 0;
  std::map<std::string, double> slow;                    // by op
  std::map<std::string, std::pair<double, double>> far;  // by op and kernel: time, floor
  for (const Cost& c : costs(profile)) {
    const Kind& k = profile.kinds[static_cast<size_t>(c.kind)];
    const auto time = static_cast<double>(c.time);
    total += time;
    if (k.copies) copies += time;
    if (k.kernel == "reference") slow[k.op] += time;
    auto& [seconds, floor] = far[k.op + " (" + k.kernel + ")"];
    seconds += time * 1e-9;
    floor += floor_of(k) * static_cast<double>(c.calls);
  }
  for (const auto& [op, time] : slow)
    if (time / total > kWorthSaying)
      lines.push_back(fmt::format(
          "{} runs by its reference kernel, for {} of the time in kernels: it is there to be "
          "right, not fast. `MICA_VERBOSE=dispatch` says why the others refused; a usual dtype or "
          "shape may help.",
          op, percent(time / total)));
  if (copies / total > kWorthSaying)
    lines.push_back(fmt::format(
        "Copies to another layout or device take {} of the time in kernels. Tensors that lie as "
        "their kernels want them (`channels_last` for convolutions, contiguous for products) are "
        "not copied, and a compiled function chooses layouts for the whole step.",
        percent(copies / total)));
  for (const auto& [name, times] : far) {
    const auto& [seconds, floor] = times;
    if (seconds / (total * 1e-9) > 0.1 && floor > 0 && floor / seconds < 0.2)
      lines.push_back(fmt::format(
          "{} takes {} of the time in kernels and reaches {} of what this machine does in a large "
          "product or copy: its shapes are small or awkward, or there is a faster way to say it.",
          name, percent(seconds / (total * 1e-9)), percent(floor / seconds)));
  }
  if (lines.empty()) lines.emplace_back("Nothing stands out.");
  return lines;
}

}  // namespace mica::profiler
