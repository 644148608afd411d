#pragma once

#include <optional>
#include <vector>

#include "mica/op/op_def.h"

namespace mica {

/// A call of a graph that a pattern was found to have. Values are numbers; -1 is none.
struct MatchedCall {
  const OpDef* op;
  AnyParams params;
  std::vector<int> in;
  std::vector<int> out;
  int place = -1;  ///< in the order of the graph

  // Of a pattern's answer.
  static constexpr int kBetween = -2;
  /// Places of calls that go beside those of the pattern.
  std::vector<int> also_replaces = {};
  /// A call that stands at its place, or where the first of those that go stood, and this one where
  /// the last did. It makes the value kBetween, which has this spec.
  std::vector<MatchedCall> before = {};
  TensorSpec between = {};
};

/// What a pattern was found in.
class Match {
 public:
  virtual ~Match() = default;
  virtual const TensorSpec& spec(int value) const = 0;
  /// What every element of a value is, where that is known before it is computed.
  virtual std::optional<double> number(int value) const = 0;
  /// Whether nobody but the calls that go reads a value.
  virtual bool goes(int value) const = 0;
  /// Whether a value is at the first call what it was when it was made.
  virtual bool lasts(int value) const = 0;
  /// The call whose result a value is.
  virtual std::optional<MatchedCall> maker(int value) const = 0;
  /// The place of the last call before the first one whose op is so; -1: none.
  virtual int last_before(bool (*is)(const OpDef& op)) const = 0;
  /// Whether a kernel that is not `composed` takes a call.
  virtual bool has_kernel(const MatchedCall& call) const = 0;

  std::vector<MatchedCall> calls;  ///< in the pattern's order
};

/// Calls that one call stands for. The room of an op that joins others declares what it joins; one
/// pass looks for the patterns of all rooms, and puts the joined call in the place of the others
/// where a kernel that is not `composed` takes it.
struct Pattern {
  static constexpr int kAny = -1;

  /// A call of an op, by name, and values that are the same where their numbers are: those it reads
  /// and makes, from the first on; kAny and what is not said may be anything.
  struct Call {
    const char* op;
    std::vector<int> in;
    std::vector<int> out = {};
    bool stays = false;  ///< it is looked at, but not replaced
  };
  /// The first is looked for; each other one makes or reads a value of those before it.
  std::vector<Call> calls;
  /// The call in their place; none where they do not fit after all. It makes every value that
  /// somebody else reads.
  std::optional<MatchedCall> (*join)(const Match& match);
};
using Patterns = std::vector<Pattern>;

/// The patterns of all rooms, in the order of ops/op_list.h. Implemented in ops/all_ops.cpp.
const Patterns& all_patterns();

}  // namespace mica
