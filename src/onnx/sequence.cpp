// Sequences and optionals.
#include "mica/core/make_tensor.h"
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"

namespace mica::onnx {
namespace {

Results known_scalar(Number value, DType dtype) {
  const HostSection host;
  Results results(scalar(value, {.dtype = dtype}));
  results.known = true;
  return results;
}

std::vector<Values> entries_of(const Values& sequence) {
  return {sequence.entries().begin(), sequence.entries().end()};
}

Results construct(const Call& c) {
  std::vector<Values> entries;
  for (int i = 0; i < c.inputs(); ++i) entries.emplace_back(c[i]);
  return Values::list(std::move(entries));
}

int64_t position_of(const Call& c, int input, int64_t length, int64_t last) {
  int64_t at = c.has(input) ? c.integer(input) : last;
  if (at < 0) at += length;
  c.check(at >= 0 && at <= last, "position {} in a sequence of {}", at, length);
  return at;
}

Results at(const Call& c) {
  const Values& sequence = c.sequence(0);
  return sequence[position_of(c, 1, sequence.size(), sequence.size() - 1)];
}

Results insert(const Call& c) {
  std::vector<Values> entries = entries_of(c.sequence(0));
  const auto length = static_cast<int64_t>(entries.size());
  entries.insert(entries.begin() + position_of(c, 2, length, length), c.value(1).value);
  return Values::list(std::move(entries));
}

Results erase(const Call& c) {
  std::vector<Values> entries = entries_of(c.sequence(0));
  const auto length = static_cast<int64_t>(entries.size());
  entries.erase(entries.begin() + position_of(c, 1, length, length - 1));
  return Values::list(std::move(entries));
}

Results split_to_sequence(const Call& c) {
  const Tensor x = c[0];
  const int64_t axis = axis_of(c, c.integer("axis", 0), x.rank());
  const int64_t size = x.shape()[static_cast<int>(axis)];
  Tensors parts;
  if (!c.has(1)) {
    parts = split(x, 1, axis);
    if (c.integer("keepdims", 1) == 0)
      for (Tensor& part : parts) part = squeeze(part, {axis});
  } else if (const std::vector<int64_t> sizes = c.ints(1); c[1].rank() == 0) {
    c.check(sizes[0] > 0, "parts of {}", sizes[0]);
    parts = split(x, std::min(sizes[0], std::max<int64_t>(1, size)), axis);
  } else {
    parts = split(x, sizes, axis);
  }
  return Values::list({parts.begin(), parts.end()});
}

Results concat_from_sequence(const Call& c) {
  Tensors parts;
  for (const Values& v : c.sequence(0).entries()) parts.push_back(v.tensor());
  c.check(!parts.empty(), "the sequence is empty");
  const int64_t axis = c.integer("axis");
  if (c.integer("new_axis", 0) != 0) return stack(parts, axis_of(c, axis, parts[0].rank() + 1));
  return concat(parts, axis_of(c, axis, parts[0].rank()));
}

}  // namespace

Operators sequence_operators() {
  return {
      {"SequenceConstruct", construct},
      {"SequenceEmpty", [](const Call&) -> Results { return Values::list({}); }},
      {"SequenceAt", at},
      {"SequenceInsert", insert},
      {"SequenceErase", erase},
      {"SequenceLength",
       [](const Call& c) { return known_scalar(c.sequence(0).size(), DType::i64); }},
      {"SplitToSequence", split_to_sequence},
      {"ConcatFromSequence", concat_from_sequence},
      {"Optional",
       [](const Call& c) -> Results { return c.inputs() > 0 ? c.value(0).value : Values(); }},
      {"OptionalHasElement", [](const Call& c) { return known_scalar(c.has(0), DType::boolean); }},
      {"OptionalGetElement",
       [](const Call& c) -> Results {
         c.check(c.has(0), "the optional holds nothing");
         return c.value(0).value;
       }},
  };
}

}  // namespace mica::onnx
