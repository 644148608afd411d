// Control flow: graphs that are attributes of nodes. Conditions and counts are read on the host.
#include <algorithm>
#include <limits>

#include "mica/core/make_tensor.h"
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

Value known(const Tensor& t) { return {t, true}; }
Value known_integer(int64_t i) {
  const HostSection host;
  return known(scalar(i, {.dtype = DType::i64}));
}
Value known_truth(bool b) {
  const HostSection host;
  return known(scalar(b, {.dtype = DType::boolean}));
}

/// What a body is given in every round, where it is compiled by itself: a number that it does not
/// know, as it would be captured for each one.
Value of_round(const Call& c, Value value) {
  if (!c.may_cut() || current_recorder() || !value.known) return value;
  return {to(value.value.tensor(), c.device()), false};
}

/// Both branches, and of their results those that the condition chooses: for a condition that is
/// not known before a captured graph runs.
std::vector<Value> both_branches(const Call& c) {
  const Tensor condition = reshape(c[0], {});
  std::vector<Value> a;
  std::vector<Value> b;
  try {
    a = c.run("then_branch", {});
    b = c.run("else_branch", {});
  } catch (const Error& e) {
    throw Unsupported(fmt::format(
        "its condition depends on the inputs, and not both branches run: {}", e.what()));
  }
  std::vector<Value> chosen;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const Values& x = a[i].value;
    const Values& y = b[i].value;
    mica::check<Unsupported>(x.is_tensor() && y.is_tensor() &&
                                 x.tensor().shape() == y.tensor().shape() &&
                                 x.tensor().dtype() == y.tensor().dtype(),
                             "its condition depends on the inputs, and its branches give {} and {}",
                             to_string(x), to_string(y));
    const auto placed = [&](const Value& v) {
      if (!v.known || v.value.tensor().device() == c.device()) return v.value.tensor();
      const HostSection host;
      return to(v.value.tensor(), c.device());
    };
    chosen.push_back({where(condition, placed(a[i]), placed(b[i])), false});
  }
  return chosen;
}

std::vector<Value> if_else(const Call& c) {
  const Values& condition = c.value(0).value;
  // In training a branch that is not taken must not follow the batch.
  if (condition.is_tensor() && !c.value(0).known && current_recorder() && !c.training() &&
      !c.may_cut())
    return both_branches(c);
  return c.run(c.truth(c.value(0)) ? "then_branch" : "else_branch", {});
}

/// Tensors of all rounds along a new axis.
Value stacked(const Call& c, const std::vector<Value>& rounds, int64_t axis) {
  Tensors tensors;
  bool all_known = true;
  for (const Value& v : rounds) {
    c.check(v.value.is_tensor(), "what its graph gives each round must be a tensor");
    tensors.push_back(v.value.tensor());
    all_known = all_known && v.known;
  }
  if (tensors.empty()) {
    const HostSection host;
    return known(zeros({0}));
  }
  if (!all_known) return {stack(tensors, axis), false};
  const HostSection host;
  return known(stack(tensors, axis));
}

std::vector<Value> loop(const Call& c) {
  const int64_t most = c.has(0) ? c.integer(0) : std::numeric_limits<int64_t>::max();
  Value condition = c.has(1) ? c.value(1) : known_truth(true);
  std::vector<Value> carried;
  for (int i = 2; i < c.inputs(); ++i) carried.push_back(c.value(i));
  std::vector<std::vector<Value>> scans(static_cast<size_t>(c.outputs()) > carried.size()
                                            ? static_cast<size_t>(c.outputs()) - carried.size()
                                            : 0);
  for (int64_t i = 0; i < most && c.truth(condition); ++i) {
    std::vector<Value> inputs = {of_round(c, known_integer(i)), of_round(c, condition)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    std::vector<Value> results = c.run("body", inputs);
    c.check(results.size() >= 1 + carried.size(), "its body gives {} values, where {} are carried",
            results.size(), carried.size());
    condition = results[0];
    for (size_t k = 0; k < carried.size(); ++k) carried[k] = results[k + 1];
    for (size_t k = 0; k < scans.size() && 1 + carried.size() + k < results.size(); ++k)
      scans[k].push_back(results[1 + carried.size() + k]);
  }
  std::vector<Value> results = carried;
  for (const auto& rounds : scans) results.push_back(stacked(c, rounds, 0));
  return results;
}

/// The rounds of a Scan: states first, then what is scanned, whose axes and directions are given.
std::vector<Value> scan_rounds(const Call& c, std::vector<Value> states,
                               const std::vector<Value>& scanned,
                               const std::vector<int64_t>& in_axes,
                               const std::vector<int64_t>& in_back,
                               const std::vector<int64_t>& out_axes,
                               const std::vector<int64_t>& out_back, int64_t steps) {
  const size_t outputs = static_cast<size_t>(c.outputs()) - states.size();
  std::vector<std::vector<Value>> rounds(outputs);
  const auto at = [](const std::vector<int64_t>& v, size_t i) { return i < v.size() ? v[i] : 0; };
  for (int64_t i = 0; i < steps; ++i) {
    std::vector<Value> inputs = states;
    for (size_t k = 0; k < scanned.size(); ++k) {
      const Tensor& t = scanned[k].value.tensor();
      const int64_t axis = axis_of(c, at(in_axes, k), t.rank());
      inputs.push_back({select(t, axis, at(in_back, k) != 0 ? steps - 1 - i : i), false});
    }
    std::vector<Value> results = c.run("body", inputs);
    c.check(results.size() >= states.size() + outputs, "its body gives {} values, expected {}",
            results.size(), states.size() + outputs);
    for (size_t k = 0; k < states.size(); ++k) states[k] = results[k];
    for (size_t k = 0; k < outputs; ++k) rounds[k].push_back(results[states.size() + k]);
  }
  for (size_t k = 0; k < outputs; ++k) {
    if (at(out_back, k) != 0) std::ranges::reverse(rounds[k]);
    const int rank = rounds[k].empty() ? 1 : rounds[k][0].value.tensor().rank() + 1;
    states.push_back(stacked(c, rounds[k], axis_of(c, at(out_axes, k), rank)));
  }
  return states;
}

std::vector<Value> scan(const Call& c) {
  const auto scanned_inputs = static_cast<size_t>(c.integer("num_scan_inputs"));
  const bool batched = c.opset() < 9;  // with lengths first, and a batch axis everywhere
  const size_t first = batched ? 1 : 0;
  const auto inputs = static_cast<size_t>(c.inputs());
  c.check(scanned_inputs >= 1 && inputs >= first + scanned_inputs,
          "{} of its {} inputs are scanned", scanned_inputs, inputs);
  const size_t count = inputs - first - scanned_inputs;
  c.check(count <= static_cast<size_t>(c.outputs()), "{} states and {} outputs", count,
          c.outputs());
  std::vector<Value> states;
  std::vector<Value> scanned;
  for (size_t i = first; i < inputs; ++i) {
    Value v = c.value(static_cast<int>(i));
    c.check(v.value.is_tensor(), "input {} must be a tensor", i);
    (i < first + count ? states : scanned).push_back(std::move(v));
  }
  if (!batched) {
    const std::vector<int64_t> axes = c.ints("scan_input_axes");
    const Tensor& t = scanned[0].value.tensor();
    const int64_t axis = axis_of(c, axes.empty() ? 0 : axes[0], t.rank());
    return scan_rounds(c, states, scanned, axes, c.ints("scan_input_directions"),
                       c.ints("scan_output_axes"), c.ints("scan_output_directions"),
                       t.shape()[static_cast<int>(axis)]);
  }
  const int64_t entries = scanned[0].value.tensor().shape()[0];
  const int64_t steps = scanned[0].value.tensor().shape()[1];
  std::vector<std::vector<Value>> results(static_cast<size_t>(c.outputs()));
  const auto entry_of = [](const std::vector<Value>& all, int64_t n) {
    std::vector<Value> parts;
    for (const Value& v : all) parts.push_back({select(v.value.tensor(), 0, n), false});
    return parts;
  };
  for (int64_t n = 0; n < entries; ++n) {
    const std::vector<Value> made = scan_rounds(c, entry_of(states, n), entry_of(scanned, n), {},
                                                c.ints("directions"), {}, {}, steps);
    for (size_t k = 0; k < results.size(); ++k) results[k].push_back(made[k]);
  }
  std::vector<Value> batches;
  for (const auto& each : results) batches.push_back(stacked(c, each, 0));
  return batches;
}

/// Its graph for each entry of a sequence, with the same entry of other sequences and with tensors.
std::vector<Value> sequence_map(const Call& c) {
  const int64_t length = c.sequence(0).size();
  std::vector<std::vector<Values>> results(static_cast<size_t>(c.outputs()));
  bool all_known = true;
  for (int64_t n = 0; n < length; ++n) {
    std::vector<Value> inputs;
    for (int i = 0; i < c.inputs(); ++i) {
      const Value& v = c.value(i);
      inputs.push_back(v.value.is_list() ? Value{v.value[n], v.known} : v);
    }
    const std::vector<Value> made = c.run("body", inputs);
    c.check(made.size() >= results.size(), "its body gives {} values, expected {}", made.size(),
            results.size());
    for (size_t k = 0; k < results.size(); ++k) {
      results[k].push_back(made[k].value);
      all_known = all_known && made[k].known;
    }
  }
  std::vector<Value> sequences;
  for (std::vector<Values>& r : results)
    sequences.push_back({Values::list(std::move(r)), all_known});
  return sequences;
}

}  // namespace

Operators control_operators() {
  return {
      {"If", nullptr, false, if_else},
      {"Loop", nullptr, false, loop},
      {"Scan", nullptr, false, scan},
      {"SequenceMap", nullptr, false, sequence_map},
  };
}

}  // namespace mica::onnx
