// Profiles for other programs: Chrome's trace format, and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "mica/io/file.h"
#include "mica/profile/slices.h"

namespace mica::profiler {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRangeNames[] = {"range", "data", "wait", "load", "launch", "step"};
constexpr const char* kWorkNames[] = {"kernel", "copy", "fill"};
// The processes of a trace, whose readers take process 0 and thread 0 for the idle one of the
// system.
constexpr int kHost = 1;
constexpr int kDevices = 2;  // the first of them

int thread_of(int track) { return track + 1; }

/// The format's microseconds. Perfetto cuts off what is less than a nanosecond, be it rounding
/// alone, and drops a slice that then ends behind the one it lies in.
double microseconds(int64_t ns) { return (static_cast<double>(ns) + 0.0005) * 1e-3; }

/// A thread's ranges have a track of their own in a trace: they begin and end where the program
/// says, and passes and modules with the first and last of their ops, so that these need not nest.
int range_track(const Profile& p, int thread) {
  return static_cast<int>(p.threads.size()) + thread;
}

Json event(const char* category, const std::string& name, int process, int track, int64_t begin,
           int64_t end) {
  return {{"ph", "X"},
          {"cat", category},
          {"name", name},
          {"pid", process},
          {"tid", thread_of(track)},
          {"ts", microseconds(begin)},
          {"dur", microseconds(end - begin)}};
}

Json named(const char* what, int process, int track, const std::string& name) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", process},
          {"tid", thread_of(track)},
          {"args", {{"name", name}}}};
}

/// What the host sent, and where on a track it is.
struct Sender {
  int track;
  int64_t begin;
};

/// What the floor of a call is made of.
std::string bound_of(const Kind& k) {
  const Peaks peaks = peaks_of(k.device, k.dtype);
  if (peaks.flops == 0) return "";
  return k.flops / peaks.flops > k.bytes / peaks.bytes ? "arithmetic" : "memory";
}

/// Tracks of devices, with arrows from what the host sent to the first that was done of it.
void add_devices(const Profile& p, Json& events) {
  std::unordered_map<uint64_t, Sender> senders;
  for (const Run& r : p.runs) senders.emplace(r.id, Sender{r.thread, r.begin});
  for (const Span& s : p.spans) senders.emplace(s.id, Sender{range_track(p, s.thread), s.begin});
  for (size_t t = 0; t < p.tracks.size(); ++t) {
    const int process = kDevices + p.tracks[t].device.index;
    events.push_back(named("process_name", process, 0, to_string(p.tracks[t].device)));
    events.push_back(named("thread_name", process, static_cast<int>(t), p.tracks[t].name));
  }
  const auto process_of = [&](int track) {
    return kDevices + p.tracks[static_cast<size_t>(track)].device.index;
  };
  for (const Slice& s : device_slices(p))
    events.push_back(event(s.is_phase ? "phase" : "module", s.name, process_of(s.thread), s.thread,
                           s.begin, s.end));
  std::unordered_set<uint64_t> drawn;
  for (size_t i = 0; i < p.device_runs.size(); ++i) {
    const DeviceRun& r = p.device_runs[i];
    const Kind& k = p.kinds[static_cast<size_t>(r.kind)];
    const Scope& scope = p.scopes[static_cast<size_t>(r.scope)];
    const int process = process_of(r.track);
    Json e = event(kWorkNames[static_cast<int>(r.what)],
                   p.device_names[static_cast<size_t>(r.name)], process, r.track, r.begin, r.end);
    e["args"] = {{"op", k.op},         {"kernel", k.kernel},      {"shapes", k.shapes},
                 {"params", k.params}, {"module", scope.module},  {"phase", name_of(scope.phase)},
                 {"bytes", r.bytes},   {"in a graph", r.in_graph}};
    events.push_back(std::move(e));
    const auto sender = senders.find(r.sender);
    if (sender == senders.end() || !drawn.insert(r.sender).second) continue;
    Json flow = {{"ph", "s"},
                 {"cat", "launch"},
                 {"name", "launch"},
                 {"id", r.sender},
                 {"pid", kHost},
                 {"tid", thread_of(sender->second.track)},
                 {"ts", microseconds(sender->second.begin)}};
    events.push_back(flow);
    flow["ph"] = "f";
    flow["bp"] = "e";
    flow["pid"] = process;
    flow["tid"] = thread_of(r.track);
    flow["ts"] = microseconds(r.begin);
    events.push_back(std::move(flow));
  }
  for (const Gap& g : gaps(p)) {
    Json e = event("gap", g.why, kDevices + g.device.index, static_cast<int>(p.tracks.size()),
                   g.begin, g.end);
    events.push_back(std::move(e));
  }
  for (const DeviceTime& t : device_times(p))
    events.push_back(
        named("thread_name", kDevices + t.device.index, static_cast<int>(p.tracks.size()), "idle"));
}

Json holders_json(const std::vector<Holder>& all) {
  Json rows = Json::array();
  for (const Holder& h : all) rows.push_back({h.op, h.module, name_of(h.phase), h.bytes});
  return {{"fields", {"op", "module", "phase", "bytes"}}, {"rows", rows}};
}

Json memory_json(const StepMemory& m) {
  Json levels = Json::array();
  for (const StepMemory::Level& l : m.levels)
    levels.push_back({l.call, l.arguments, l.activations, l.gradients, l.updates, l.workspace});
  return {{"weights", m.weights},
          {"optimizer", m.optimizer},
          {"others", m.others},
          {"kept", m.kept},
          {"arena", m.arena},
          {"eager", m.eager},
          {"total", m.total()},
          {"peak",
           {{"at", m.at},
            {"arguments", m.arguments},
            {"activations", m.activations},
            {"gradients", m.gradients},
            {"updates", m.updates},
            {"workspace", m.workspace}}},
          {"levels",
           {{"fields", {"call", "arguments", "activations", "gradients", "updates", "workspace"}},
            {"rows", levels}}},
          {"outside", holders_json(m.outside)},
          {"holders", holders_json(m.holders)}};
}

/// What devices did, and how much of it is known; null where none was seen.
Json device_json(const Profile& p) {
  if (p.device_source.empty()) return nullptr;
  Json runs = Json::array();
  for (const DeviceRun& r : p.device_runs)
    runs.push_back({r.kind, r.scope, r.track, r.begin, r.end, r.name,
                    kWorkNames[static_cast<int>(r.what)], r.bytes, r.in_graph, r.is_first,
                    r.is_known, r.sender});
  Json tracks = Json::array();
  for (const Track& t : p.tracks)
    tracks.push_back({{"device", to_string(t.device)}, {"name", t.name}});
  Json times = Json::array();
  for (const DeviceTime& t : device_times(p)) {
    Json why = Json::object();
    int64_t idle = 0;
    for (const auto& [name, time] : t.gaps) {
      why[name] = time;
      idle += time;
    }
    const auto part = [&](int64_t ns) {
      return t.work > 0 ? static_cast<double>(ns) / static_cast<double>(t.work) : 0;
    };
    times.push_back({{"device", to_string(t.device)},
                     {"busy_ns", t.busy},
                     {"work_ns", t.work},
                     {"attributed", part(t.attributed)},
                     {"in_modules", part(t.in_modules)},
                     {"gaps_ns", why},
                     {"busy_and_gaps_ns", t.busy + idle}});
  }
  Json idle = Json::array();
  for (const Gap& g : gaps(p)) idle.push_back({to_string(g.device), g.why, g.begin, g.end});
  Json nested = Json::array();
  for (const Slice& s : device_slices(p))
    nested.push_back({s.name, s.is_phase, s.depth, s.thread, s.begin, s.end});
  return {{"source", p.device_source},
          {"dropped", p.dropped},
          {"times", times},
          {"tracks", tracks},
          {"names", p.device_names},
          {"runs",
           {{"fields",
             {"kind", "scope", "track", "begin_ns", "end_ns", "name", "what", "bytes", "in_graph",
              "is_first", "is_known", "sender"}},
            {"rows", runs}}},
          {"gaps", {{"fields", {"device", "why", "begin_ns", "end_ns"}}, {"rows", idle}}},
          {"slices",
           {{"fields", {"name", "is_phase", "depth", "track", "begin_ns", "end_ns"}},
            {"rows", nested}}}};
}

}  // namespace

void export_chrome_trace(const Profile& profile, const std::string& path) {
  Json events = Json::array();
  events.push_back(named("process_name", kHost, 0, "mica"));
  for (size_t t = 0; t < profile.threads.size(); ++t)
    events.push_back(named("thread_name", kHost, static_cast<int>(t), profile.threads[t]));
  for (size_t s = 0; s + 1 < profile.steps.size(); ++s)
    events.push_back(
        event("step", fmt::format("step {}", s), kHost, 0, profile.steps[s], profile.steps[s + 1]));
  for (const Slice& s : slices(profile))
    events.push_back(
        event(s.is_phase ? "phase" : "module", s.name, kHost, s.thread, s.begin, s.end));
  std::set<int> with_ranges;
  for (const Span& s : profile.spans) {
    const int track = range_track(profile, s.thread);
    if (with_ranges.insert(s.thread).second)
      events.push_back(named("thread_name", kHost, track,
                             profile.threads[static_cast<size_t>(s.thread)] + ", ranges"));
    events.push_back(
        event(kRangeNames[static_cast<int>(s.kind)], s.name, kHost, track, s.begin, s.end));
  }
  for (const Run& r : profile.runs) {
    const Kind& k = profile.kinds[static_cast<size_t>(r.kind)];
    const Scope& scope = profile.scopes[static_cast<size_t>(r.scope)];
    Json e = event("op", k.op, kHost, r.thread, r.begin, r.end);
    e["args"] = {{"kernel", k.kernel},     {"shapes", k.shapes},     {"params", k.params},
                 {"module", scope.module}, {"caller", scope.caller}, {"flops", k.flops},
                 {"bytes", k.bytes}};
    events.push_back(std::move(e));
    events.push_back({{"ph", "C"},
                      {"name", "bytes of tensors"},
                      {"pid", kHost},
                      {"ts", microseconds(r.end)},
                      {"args", {{to_string(k.device), r.allocated}}}});
  }
  add_devices(profile, events);
  const Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  const std::string text = trace.dump(-1, ' ', false, Json::error_handler_t::replace);
  io::write_file_atomically(path, [&](io::File& file) { file.write(text); });
}

std::string to_json(const Profile& profile) {
  Json kinds = Json::array();
  for (const Kind& k : profile.kinds)
    kinds.push_back({{"op", k.op},
                     {"kernel", k.kernel},
                     {"params", k.params},
                     {"shapes", k.shapes},
                     {"device", to_string(k.device)},
                     {"dtype", name_of(k.dtype)},
                     {"flops", k.flops},
                     {"bytes", k.bytes},
                     {"floor_us", floor_of(k) * 1e6},
                     {"bound", bound_of(k)}});
  Json scopes = Json::array();
  for (const Scope& s : profile.scopes)
    scopes.push_back({{"module", s.module}, {"phase", name_of(s.phase)}, {"caller", s.caller}});
  Json runs = Json::array();
  for (const Run& r : profile.runs)
    runs.push_back({r.kind, r.scope, r.thread, r.begin, r.end, r.self, r.allocated, r.id});
  Json spans = Json::array();
  for (const Span& s : profile.spans)
    spans.push_back(
        {s.name, kRangeNames[static_cast<int>(s.kind)], s.thread, s.begin, s.end, s.id});
  Json nested = Json::array();
  for (const Slice& s : slices(profile))
    nested.push_back({s.name, s.is_phase, s.depth, s.thread, s.begin, s.end});
  Json times = Json::array();
  for (const Cost& c : costs(profile)) times.push_back({c.kind, c.scope, c.calls, c.time});
  Json memory = Json::array();
  for (const MemoryUse& m : profile.memory) {
    memory.push_back(memory_json(m.memory));
    memory.back()["name"] = m.name;
  }
  Json blocks = Json::array();
  for (const HeldBlock& b : profile.blocks) blocks.push_back({b.segment, b.bytes, b.free, b.op});
  Json peaks = Json::array();
  std::set<std::pair<std::string, DType>> asked;
  for (const Kind& k : profile.kinds) {
    if (k.flops == 0 || !asked.emplace(to_string(k.device), k.dtype).second) continue;
    const Peaks most = peaks_of(k.device, k.dtype);
    if (most.flops > 0)
      peaks.push_back({{"device", to_string(k.device)},
                       {"dtype", name_of(k.dtype)},
                       {"flops", most.flops},
                       {"bytes", most.bytes}});
  }
  Json facts = Json::object();
  for (const auto& [name, value] : profile.facts) facts[name] = value;
  const Json all = {
      {"duration_ns", profile.end},
      {"steps_ns", profile.steps},
      {"threads", profile.threads},
      {"facts", facts},
      {"advice", advice(profile)},
      {"kinds", kinds},
      {"scopes", scopes},
      {"runs",
       {{"fields", {"kind", "scope", "thread", "begin_ns", "end_ns", "self_ns", "allocated", "id"}},
        {"rows", runs}}},
      {"ranges",
       {{"fields", {"name", "kind", "thread", "begin_ns", "end_ns", "id"}}, {"rows", spans}}},
      {"costs", {{"fields", {"kind", "scope", "calls", "ns"}}, {"rows", times}}},
      {"device", device_json(profile)},
      {"peaks", peaks},
      {"memory", memory},
      {"peak",
       {{"device", to_string(profile.peak.device)},
        {"weights", profile.peak.weights},
        {"optimizer", profile.peak.optimizer},
        {"data", profile.peak.data},
        {"before", profile.peak.before},
        {"activations", profile.peak.activations},
        {"gradients", profile.peak.gradients},
        {"updates", profile.peak.updates},
        {"workspace", profile.peak.workspace},
        {"others", profile.peak.others},
        {"total", profile.peak.total()},
        {"holders", holders_json(profile.peak.holders)}}},
      {"blocks", {{"fields", {"segment", "bytes", "free", "op"}}, {"rows", blocks}}},
      {"slices",
       {{"fields", {"name", "is_phase", "depth", "thread", "begin_ns", "end_ns"}},
        {"rows", nested}}}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mica::profiler
