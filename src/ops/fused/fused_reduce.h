#pragma once

#include <optional>

#include "mica/ops/fused/program.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {

/// How elements become one.
enum class Fold : int64_t { sum, max, min };
inline constexpr const char* kFoldNames[] = {"sum", "max", "min"};
constexpr std::span<const char* const> names_of(Fold) { return kFoldNames; }

/// What `fused_reduce` computes: a program with one result, and the reduction of that.
struct FusedReduceParams {
  ProgramRef program;
  Fold fold = Fold::sum;
  ReduceParams reduce;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("program", self.program);
    f("fold", self.fold);
    ReduceParams::fields(self.reduce, f);
  }
};

/// Elementwise calls and a reduction of what they give as one: it exists inside compiled functions,
/// where a pass puts it in the place of the calls.
const OpDef& fused_reduce_op();

/// The op that reduces by a fold.
const OpDef& reduction_op(Fold fold);

/// What the program computes, as a row-major tensor.
TensorSpec reduced_tensor(const Program& program, std::span<const TensorSpec> in);

/// A reduction over the last axes, as one of the columns of a matrix.
struct ReducedRows {
  int64_t count;
  int64_t columns;
};
/// None where the axes are not the last ones.
std::optional<ReducedRows> rows_of(const Shape& shape, const Dims& axes);

/// The program by its own kernel, then the reduction by that of its op; on any device.
Kernel fused_reduce_composed_kernel();
/// Piece by piece through all calls and into sums; CPU.
Kernel fused_reduce_tiled_kernel();

}  // namespace mica
