#include "mica/distributed/environment.h"

#include <charconv>

#include "mica/core/check.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every header

namespace mica::distributed {
namespace {

std::optional<std::string> find(const Variables& v, const char* name) {
  const auto it = v.find(name);
  return it == v.end() || it->second.empty() ? std::nullopt : std::optional(it->second);
}

int number(const Variables& v, const char* name, std::optional<int> otherwise = {}) {
  const std::optional<std::string> text = find(v, name);
  if (!text && otherwise) return *otherwise;
  check(text.has_value(), "distributed: the environment has no {}", name);
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  check(error == std::errc() && end == text->data() + text->size() && value >= 0,
        "distributed: {} must be a number, got '{}'", name, *text);
  return value;
}

Environment checked(const Environment& e) {
  check(e.world_size >= 1 && e.rank < e.world_size,
        "distributed: the environment of {} says rank {} of {}", e.launcher, e.rank, e.world_size);
  return e;
}

constexpr int kMostNodes = 1 << 20;

/// What stands in brackets: "01-03,7".
void expand_range(const std::string& prefix, const std::string& range, const std::string& suffix,
                  std::vector<std::string>& nodes) {
  const size_t dash = range.find('-');
  const std::string first = range.substr(0, dash);
  const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
  int from = 0;
  int to = 0;
  const auto parse = [&](const std::string& text, int& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return !text.empty() && error == std::errc() && end == text.data() + text.size() && value >= 0;
  };
  check(parse(first, from) && parse(last, to) && from <= to && to - from < kMostNodes,
        "distributed: '{}' is no range of nodes", range);
  for (int i = from; i <= to; ++i) {
    std::string digits = std::to_string(i);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    nodes.push_back(prefix + digits + suffix);
  }
}

/// One entry of a list, as "n[01-03,7]".
void expand_entry(const std::string& entry, std::vector<std::string>& nodes) {
  const size_t open = entry.find('[');
  if (open == std::string::npos) {
    check(!entry.empty() && entry.find(']') == std::string::npos,
          "distributed: '{}' is no list of nodes", entry);
    nodes.push_back(entry);
    return;
  }
  const size_t close = entry.find(']', open);
  check(close != std::string::npos && entry.find('[', close) == std::string::npos,
        "distributed: '{}' is no list of nodes with one pair of brackets each", entry);
  const std::string ranges = entry.substr(open + 1, close - open - 1);
  for (size_t at = 0; at <= ranges.size();) {
    const size_t comma = std::min(ranges.find(',', at), ranges.size());
    expand_range(entry.substr(0, open), ranges.substr(at, comma - at), entry.substr(close + 1),
                 nodes);
    at = comma + 1;
  }
}

/// The address and port of rank 0 of a Slurm job: its first node, and a port that jobs on one node
/// rarely share.
void add_slurm_master(const Variables& v, Environment& e) {
  e.master_address = find(v, "MASTER_ADDR").value_or("");
  const std::optional<std::string> nodes =
      find(v, "SLURM_STEP_NODELIST") ? find(v, "SLURM_STEP_NODELIST") : find(v, "SLURM_NODELIST");
  if (e.master_address.empty() && nodes) e.master_address = expand_node_list(*nodes)[0];
  constexpr int kFirstPort = 20000;
  constexpr int kPorts = 10000;
  e.master_port = number(v, "MASTER_PORT", kFirstPort + number(v, "SLURM_JOB_ID", 0) % kPorts);
}

}  // namespace

std::vector<std::string> expand_node_list(const std::string& list) {
  std::vector<std::string> nodes;
  int depth = 0;
  std::string entry;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      expand_entry(std::exchange(entry, {}), nodes);
    } else {
      entry += c;
    }
  }
  expand_entry(entry, nodes);
  check(nodes.size() <= kMostNodes, "distributed: a list of {} nodes is too long", nodes.size());
  return nodes;
}

Environment environment_from(const Variables& v) {
  Environment e;
  if (find(v, "RANK") && find(v, "WORLD_SIZE")) {
    e = {.launcher = "torchrun",
         .rank = number(v, "RANK"),
         .world_size = number(v, "WORLD_SIZE"),
         .local_rank = number(v, "LOCAL_RANK", number(v, "RANK")),
         .master_address = find(v, "MASTER_ADDR").value_or("127.0.0.1"),
         .master_port = number(v, "MASTER_PORT", 29500)};
  } else if (find(v, "OMPI_COMM_WORLD_RANK")) {
    e = {.launcher = "openmpi",
         .rank = number(v, "OMPI_COMM_WORLD_RANK"),
         .world_size = number(v, "OMPI_COMM_WORLD_SIZE"),
         .local_rank = number(v, "OMPI_COMM_WORLD_LOCAL_RANK", 0)};
  } else if (find(v, "PMI_RANK") && find(v, "PMI_SIZE")) {
    e = {.launcher = "mpich",
         .rank = number(v, "PMI_RANK"),
         .world_size = number(v, "PMI_SIZE"),
         .local_rank = number(v, "MPI_LOCALRANKID", 0)};
  } else if (find(v, "SLURM_PROCID") && find(v, "SLURM_NTASKS")) {
    e = {.launcher = "slurm",
         .rank = number(v, "SLURM_PROCID"),
         .world_size = number(v, "SLURM_NTASKS"),
         .local_rank = number(v, "SLURM_LOCALID", 0)};
    if (e.world_size > 1) add_slurm_master(v, e);
  }
  return checked(e);
}

Variables process_variables() {
  Variables all;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

}  // namespace mica::distributed
