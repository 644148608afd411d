// When devices were busy, and what the host did when they were not.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "mica/profile/profile.h"

namespace mica::profiler {
namespace {

/// What a thread of the host did for a while, as the reason why a device did nothing.
struct Doing {
  int64_t begin;
  int64_t end;
  std::string what;
};

std::string words_of(const Span& s) {
  switch (s.kind) {
    case RangeKind::data:
      return kWaitingForBatch;
    case RangeKind::wait:
      return kHostWaited;
    default:
      return s.name;
  }
}

/// By the thread: everything but ranges that programs named, of which they may be in all the time.
std::map<int, std::vector<Doing>> doings(const Profile& p) {
  std::map<int, std::vector<Doing>> all;
  for (const Span& s : p.spans)
    if (s.kind == RangeKind::data || s.kind == RangeKind::wait || s.kind == RangeKind::launch)
      all[s.thread].push_back({s.begin, s.end, words_of(s)});
  for (const Run& r : p.runs) all[r.thread].push_back({r.begin, r.end, kCallingOps});
  for (auto& [thread, list] : all) std::ranges::stable_sort(list, std::less(), &Doing::begin);
  return all;
}

/// What took most of a stretch; at least a third of it, else it is the program itself.
std::string most_of(const std::vector<Doing>& list, int64_t begin, int64_t end) {
  std::map<std::string, int64_t> times;
  auto at = std::ranges::upper_bound(list, begin, {}, &Doing::begin);
  // Those before may reach into it; they nest few levels deep.
  for (int back = 0; back < 8 && at != list.begin(); ++back) --at;
  for (; at != list.end() && at->begin < end; ++at)
    if (at->end > begin) times[at->what] += std::min(at->end, end) - std::max(at->begin, begin);
  const auto most = std::ranges::max_element(times, {}, [](const auto& t) { return t.second; });
  if (most == times.end() || 3 * most->second < end - begin) return kBetweenCalls;
  return most->first;
}

}  // namespace

std::vector<Gap> gaps(const Profile& p) {
  const std::map<int, std::vector<Doing>> host = doings(p);
  std::unordered_map<uint64_t, int> thread_of;  // who sent something
  for (const Run& r : p.runs) thread_of.emplace(r.id, r.thread);
  for (const Span& s : p.spans) thread_of.emplace(s.id, s.thread);
  struct Last {
    int64_t end;
    uint64_t sender;
    bool in_graph;
  };
  std::map<int, Last> last;  // by device
  std::vector<Gap> all;
  for (const DeviceRun& r : p.device_runs) {
    const Device device = p.tracks[static_cast<size_t>(r.track)].device;
    const auto [at, is_first] = last.try_emplace(device.index, Last{r.end, r.sender, r.in_graph});
    if (is_first) continue;
    Last& before = at->second;
    if (r.begin > before.end) {
      const auto thread = thread_of.find(r.sender);
      const auto doing = host.find(thread == thread_of.end() ? 0 : thread->second);
      const bool same_graph =
          r.in_graph && before.in_graph && r.sender != 0 && r.sender == before.sender;
      all.push_back({device,
                     same_graph            ? kWithinGraph
                     : doing == host.end() ? kBetweenCalls
                                           : most_of(doing->second, before.end, r.begin),
                     before.end, r.begin});
    }
    if (r.end >= before.end) before = {r.end, r.sender, r.in_graph};
  }
  return all;
}

std::vector<DeviceTime> device_times(const Profile& p) {
  std::map<int, DeviceTime> all;
  std::map<int, int64_t> until;
  for (const DeviceRun& r : p.device_runs) {
    const Device device = p.tracks[static_cast<size_t>(r.track)].device;
    DeviceTime& t = all[device.index];
    t.device = device;
    const int64_t time = r.end - r.begin;
    t.work += time;
    if (r.is_known) t.attributed += time;
    if (r.is_known && !p.scopes[static_cast<size_t>(r.scope)].module.empty()) t.in_modules += time;
    const auto [end, is_first] = until.try_emplace(device.index, r.begin);
    t.busy += std::max<int64_t>(0, r.end - std::max(r.begin, end->second));
    end->second = std::max(end->second, r.end);
  }
  std::map<int, std::map<std::string, int64_t>> reasons;
  for (const Gap& g : gaps(p)) reasons[g.device.index][g.why] += g.end - g.begin;
  std::vector<DeviceTime> list;
  for (auto& [index, t] : all) {
    t.gaps.assign(reasons[index].begin(), reasons[index].end());
    std::ranges::stable_sort(t.gaps,
                             [](const auto& a, const auto& b) { return a.second > b.second; });
    list.push_back(std::move(t));
  }
  return list;
}

}  // namespace mica::profiler
