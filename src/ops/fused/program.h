#pragma once

#include <string>
#include <vector>

#include "mica/op/op_def.h"

namespace mica {

/// A call of an elementwise op inside a program.
struct Instruction {
  const OpDef* op;
  AnyParams params;
  /// Values it is called with: first come the program's inputs, then the instructions' results.
  std::vector<int> operands;

  bool operator==(const Instruction&) const = default;
};

/// Elementwise calls that are computed together. Every result has one shape, to which the inputs
/// broadcast.
struct Program {
  static constexpr int kMostInputs = 8;
  static constexpr int kMostInstructions = 24;
  static constexpr int kMostOutputs = 4;
  static constexpr int kMostOperands = 3;
  static constexpr int kMostValues = kMostInputs + kMostInstructions;

  int inputs = 0;
  std::vector<Instruction> instructions;
  std::vector<int> outputs;  ///< instructions whose results are the program's

  bool operator==(const Program&) const = default;
  uint64_t hash() const;
  /// "%2 = mul(%0, %1) {}; %3 = relu(%2) {}; return %3".
  std::string print() const;

  /// Specs of all values for inputs like these: results have a shape and a dtype, and the device.
  /// Raises what the ops' own checks do.
  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const;
  /// For each result a slot that it shares with those which are needed at other times; -1 for
  /// results that are written to their output at once (`direct`). Outputs keep theirs to the end.
  std::vector<int> slots(const std::vector<bool>& direct) const;
  /// By instruction: its result is an output.
  std::vector<bool> is_output() const;
  /// By instruction: another one reads its result.
  std::vector<bool> is_read() const;
  /// Which output an instruction's result is; -1 for one that is needed inside alone.
  int output_of(int instruction) const;
};

/// A program as a parameter: equal programs are one object, kept for the life of the process.
struct ProgramRef {
  const Program* program = nullptr;
  const Program* operator->() const { return program; }
  const Program& operator*() const { return *program; }
  bool operator==(const ProgramRef&) const = default;
};
/// Raises Error for a program that is not one.
ProgramRef intern(Program program);

inline uint64_t hash_field(uint64_t h, ProgramRef v) { return hash_mix(h, v->hash()); }
inline std::string print_field(ProgramRef v) { return v->print(); }
bool is_finite_field(ProgramRef v);

/// What `fused` computes.
struct FusedParams {
  ProgramRef program;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("program", self.program);
  }
};

}  // namespace mica
