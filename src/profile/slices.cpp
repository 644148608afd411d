#include "mica/profile/slices.h"

#include <algorithm>

namespace mica::profiler {

std::vector<std::string> parts_of(const Scope& scope) {
  std::vector<std::string> parts = {name_of(scope.phase)};
  for (size_t at = 0; at < scope.module.size();) {
    const size_t dot = std::min(scope.module.find('.', at), scope.module.size());
    parts.push_back(scope.module.substr(at, dot - at));
    at = dot + 1;
  }
  return parts;
}

namespace {

/// Of whom a stretch is, and where it lies.
struct Piece {
  int scope;
  int thread;
  int64_t begin;
  int64_t end;
};

/// `pieces` are in the order of their threads, and there of time.
std::vector<Slice> slices_of(const Profile& profile, const std::vector<Piece>& pieces) {
  std::vector<Slice> all;
  std::vector<size_t> open;  // of all, the outermost first
  std::vector<std::vector<std::string>> parts;
  for (const Scope& s : profile.scopes) parts.push_back(parts_of(s));
  const Piece* before = nullptr;
  const auto close = [&](size_t keep) {
    for (; open.size() > keep; open.pop_back()) all[open.back()].end = before->end;
  };
  size_t step = 0;
  for (const Piece& r : pieces) {
    const std::vector<std::string>& names = parts[static_cast<size_t>(r.scope)];
    if (before && before->thread != r.thread) {
      close(0);
      step = 0;
    }
    if (before && before->thread == r.thread && r.begin < before->end) continue;  // inside it
    const size_t was = step;
    while (step < profile.steps.size() && profile.steps[step] <= r.begin) ++step;
    if (before && step != was) close(0);  // no slice goes over the end of a step
    size_t same = 0;
    while (same < open.size() && same < names.size() && all[open[same]].name == names[same]) ++same;
    if (before) close(same);
    for (size_t depth = same; depth < names.size(); ++depth) {
      open.push_back(all.size());
      all.push_back({names[depth], depth == 0, static_cast<int>(depth), r.thread, r.begin, r.end});
    }
    before = &r;
  }
  if (before) close(0);
  return all;
}

}  // namespace

std::vector<Slice> slices(const Profile& profile) {
  std::vector<Piece> pieces;
  pieces.reserve(profile.runs.size());
  for (const Run& r : profile.runs) pieces.push_back({r.scope, r.thread, r.begin, r.end});
  return slices_of(profile, pieces);
}

std::vector<Slice> device_slices(const Profile& profile) {
  std::vector<Piece> pieces;
  pieces.reserve(profile.device_runs.size());
  for (const DeviceRun& r : profile.device_runs)
    if (r.is_known) pieces.push_back({r.scope, r.track, r.begin, r.end});
  std::ranges::stable_sort(pieces, std::less(), &Piece::thread);
  return slices_of(profile, pieces);
}

}  // namespace mica::profiler
