#pragma once

#include <optional>

#include "mica/ops/activation.h"
#include "mica/ops/fused/program.h"

namespace mica {

/// A call of an op that does the heavy work, the anchor, and elementwise calls on its first operand
/// and its first result.
///
/// Inputs of the whole: the anchor's, the first of them being `before`'s where there is one; what
/// else `before` reads; what else `after` reads. Results: `after`'s, or the anchor's first; that
/// one too where it is kept; the anchor's others; the operand that `before` makes, where kept.
struct Anchored {
  const OpDef* op = nullptr;
  AnyParams params{params_info<NoParams>()};
  ProgramRef before = {};  ///< has one result, the anchor's operand; null for none
  ProgramRef after = {};   ///< its first input is the anchor's result; null for none
  bool keeps_operand = false;
  bool keeps_result = false;
  /// Inputs (bit i: input i) that are vectors with a number for each channel, axis 1 of what a
  /// program computes.
  uint32_t by_channel = 0;

  int inputs() const { return op->inputs() + more_before() + more_after(); }
  /// Inputs of the programs beside the anchor's operand and result.
  int more_before() const { return before.program ? before->inputs - 1 : 0; }
  int more_after() const { return after.program ? after->inputs - 1 : 0; }
  /// The input of the whole that is input k > 0 of `after`.
  int input_after(int k) const { return op->inputs() + more_before() + k - 1; }
  /// Results that stand before the anchor's others.
  int results() const {
    return (after.program ? static_cast<int>(after->outputs.size()) : 1) + (keeps_result ? 1 : 0);
  }

  /// An input as its program sees it: (C) is (C, 1, …) where it is by channel, beside `rank` axes.
  TensorSpec seen(int input, const TensorSpec& spec, int rank) const;

  bool operator==(const Anchored&) const = default;
  uint64_t hash() const;
  /// "conv2d {stride = …}, then %1 = relu(%0) {}; return %1".
  std::string print() const;
};

/// As a parameter: equal ones are one object, kept for the life of the process.
struct AnchoredRef {
  const Anchored* anchored = nullptr;
  const Anchored* operator->() const { return anchored; }
  const Anchored& operator*() const { return *anchored; }
  bool operator==(const AnchoredRef&) const = default;
};
AnchoredRef intern(Anchored anchored);

inline uint64_t hash_field(uint64_t h, AnchoredRef v) { return hash_mix(h, v->hash()); }
std::string print_field(AnchoredRef v);
bool is_finite_field(AnchoredRef v);

/// What `anchored` computes.
struct AnchoredParams {
  AnchoredRef call;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("call", self.call);
  }
};

/// An anchor with its programs as one call: it exists inside compiled functions, where a pass puts
/// it in the place of several. Its kernels stand in the rooms of the anchors.
const OpDef& anchored_op();

/// The anchor and then the programs' calls, one after the other; on any device.
Kernel anchored_composed_kernel();

/// What kernels written by hand can do to a result: add something of its shape, then an activation;
/// or an activation's gradient, where the result is the gradient of what the activation gave.
struct KnownAfter {
  int added = -1;  ///< an input of the whole; -1: nothing is added
  Activation activation = Activation::none;
  int saved = -1;  ///< what the gradient of the activation reads; -1: the activation itself
};
/// Of a call of this anchor without `before`; none where the program is another one.
std::optional<KnownAfter> known_after(const AnchoredParams& params, const OpDef& anchor);

/// The single call `activation(x)` as a program.
Program program_of(Activation activation);

}  // namespace mica
