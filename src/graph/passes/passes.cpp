#include "mica/graph/passes/passes.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <sstream>

#include "mica/autograd/anomaly.h"
#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/core/log.h"
#include "mica/graph/graph.h"
#include "mica/op/settings.h"

namespace mica {
namespace {

constexpr Pass kPasses[] = {
    {"dead_nodes", remove_dead_nodes, false},
    {"constants", fold_constants, false},
    {"casts", merge_casts, false},
    {"views", collapse_views, false},
    {"permutations", cancel_permutations, false},
    {"cast_order", move_casts, false},
    {"identities", remove_identities, false},
    {"added_zeros", remove_added_zeros, true},
    {"common_subexpressions", merge_common_subexpressions, false},
    {"fold_batch_norm", fold_batch_norm, true, true},
    {"layout", choose_layout, true},
    {"casts", merge_casts, false},
    {"identities", remove_identities, false},
    {"hoist", hoist, false},
    {"scalar_operands", shrink_constants, false},
    {"join_patterns", join_patterns, true, true},
    {"carry_programs", carry_programs, true, true},
    {"fuse_elementwise", fuse_elementwise, false, true},
    {"fuse_reductions", fuse_reductions, true, true},
    {"join_copies", join_copies, false, true},
    {"dead_nodes", remove_dead_nodes, false},
};

void check_name(const std::string& name) {
  std::string known;
  for (const Pass& pass : kPasses) {
    if (pass.name == name) return;
    if (known.find(pass.name) == std::string::npos)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", pass.name);
  }
  fail("passes: there is none named '{}', only {}", name, known);
}

/// "-constants,-views" as a set.
std::set<std::string> parse(const char* text) {
  std::set<std::string> off;
  std::istringstream rest(text ? text : "");
  for (std::string entry; std::getline(rest, entry, ',');) {
    check(entry.starts_with('-'), "MICA_PASSES: expected -name[,-name…], got '{}'", text);
    check_name(entry.substr(1));
    off.insert(entry.substr(1));
  }
  return off;
}

struct Switches {
  Mutex mutex;
  std::set<std::string> off = parse(std::getenv("MICA_PASSES"));
};

Switches& switches() {
  static Switches s;
  return s;
}

std::vector<std::string> lines(const Graph& graph) {
  std::vector<std::string> all;
  std::istringstream text(graph.dump());
  for (std::string line; std::getline(text, line);)
    if (!line.starts_with("return")) all.push_back(line);
  std::sort(all.begin(), all.end());
  return all;
}

/// Says what a pass did.
void run_aloud(const Pass& pass, Graph& graph) {
  const size_t nodes = graph.nodes.size();
  const std::vector<std::string> before = lines(graph);
  pass.run(graph);
  const std::vector<std::string> after = lines(graph);
  std::vector<std::string> fresh;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::back_inserter(fresh));
  const size_t removed = nodes - std::min(nodes, graph.nodes.size());
  if (removed == 0 && fresh.empty()) return;
  log_message(LogLevel::info, fmt::format("compile: {}: of {} nodes {} removed, {} changed",
                                          pass.name, nodes, removed, fresh.size()));
}

void run_if_on(const Pass& pass, Graph& graph) {
  if (!pass_is_on(pass.name) || (pass.changes_rounding && deterministic()) ||
      (pass.joins_ops && detect_anomaly()))
    return;
  if (verbose_compile()) {
    run_aloud(pass, graph);
  } else {
    pass.run(graph);
  }
}

}  // namespace

std::span<const Pass> passes() { return kPasses; }

void run_passes(Graph& graph) {
  for (const Pass& pass : kPasses) run_if_on(pass, graph);
}

void run_passes(Graph& graph, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    run_if_on(*std::find_if(std::begin(kPasses), std::end(kPasses),
                            [&](const Pass& pass) { return pass.name == name; }),
              graph);
}

void set_pass(const std::string& name, bool on) {
  check_name(name);
  Switches& s = switches();
  {
    const std::lock_guard lock(s.mutex);
    const bool was_on = !s.off.contains(name);
    if (was_on == on) return;
    if (on) {
      s.off.erase(name);
    } else {
      s.off.insert(name);
    }
  }
  settings_changed();
}

bool pass_is_on(const std::string& name) {
  Switches& s = switches();
  const std::lock_guard lock(s.mutex);
  return !s.off.contains(name);
}

}  // namespace mica
