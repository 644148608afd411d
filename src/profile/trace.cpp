// Profiles for other programs: Chrome's trace format, and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "mica/io/file.h"
#include "mica/profile/slices.h"

namespace mica::profiler {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRangeNames[] = {"range", "data", "wait"};

Json event(const char* category, const std::string& name, int thread, int64_t begin, int64_t end) {
  return {{"ph", "X"},
          {"cat", category},
          {"name", name},
          {"pid", 0},
          {"tid", thread},
          {"ts", static_cast<double>(begin) * 1e-3},
          {"dur", static_cast<double>(end - begin) * 1e-3}};
}

}  // namespace

void export_chrome_trace(const Profile& profile, const std::string& path) {
  Json events = Json::array();
  events.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", 0}, {"args", {{"name", "mica"}}}});
  for (size_t t = 0; t < profile.threads.size(); ++t)
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 0},
                      {"tid", t},
                      {"args", {{"name", profile.threads[t]}}}});
  for (size_t s = 0; s + 1 < profile.steps.size(); ++s)
    events.push_back(
        event("step", fmt::format("step {}", s), 0, profile.steps[s], profile.steps[s + 1]));
  for (const Slice& s : slices(profile))
    events.push_back(event(s.is_phase ? "phase" : "module", s.name, s.thread, s.begin, s.end));
  for (const Span& s : profile.spans)
    events.push_back(
        event(kRangeNames[static_cast<int>(s.kind)], s.name, s.thread, s.begin, s.end));
  for (const Run& r : profile.runs) {
    const Kind& k = profile.kinds[static_cast<size_t>(r.kind)];
    const Scope& scope = profile.scopes[static_cast<size_t>(r.scope)];
    Json e = event("op", k.op, r.thread, r.begin, r.end);
    e["args"] = {{"kernel", k.kernel},     {"shapes", k.shapes},     {"params", k.params},
                 {"module", scope.module}, {"caller", scope.caller}, {"flops", k.flops},
                 {"bytes", k.bytes}};
    events.push_back(std::move(e));
    events.push_back({{"ph", "C"},
                      {"name", "bytes of tensors"},
                      {"pid", 0},
                      {"ts", static_cast<double>(r.end) * 1e-3},
                      {"args", {{"allocated", r.allocated}}}});
  }
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
                     {"flops", k.flops},
                     {"bytes", k.bytes},
                     {"floor_us", floor_of(k) * 1e6}});
  Json scopes = Json::array();
  for (const Scope& s : profile.scopes)
    scopes.push_back({{"module", s.module}, {"phase", name_of(s.phase)}, {"caller", s.caller}});
  Json runs = Json::array();
  for (const Run& r : profile.runs)
    runs.push_back({r.kind, r.scope, r.thread, r.begin, r.end, r.self, r.allocated});
  Json spans = Json::array();
  for (const Span& s : profile.spans)
    spans.push_back({s.name, kRangeNames[static_cast<int>(s.kind)], s.thread, s.begin, s.end});
  Json nested = Json::array();
  for (const Slice& s : slices(profile))
    nested.push_back({s.name, s.is_phase, s.depth, s.thread, s.begin, s.end});
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
       {{"fields", {"kind", "scope", "thread", "begin_ns", "end_ns", "self_ns", "allocated"}},
        {"rows", runs}}},
      {"ranges", {{"fields", {"name", "kind", "thread", "begin_ns", "end_ns"}}, {"rows", spans}}},
      {"slices",
       {{"fields", {"name", "is_phase", "depth", "thread", "begin_ns", "end_ns"}},
        {"rows", nested}}}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mica::profiler
