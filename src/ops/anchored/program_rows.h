#pragma once

#include "mica/op/select.h"
#include "mica/ops/anchored/anchored.h"

namespace mica {

/// A program on the CPU over some rows at a time of row-major tensors, while these are in the
/// cache: what an anchor that works row by row is about to read, or has just written.
class ProgramRows {
 public:
  /// `result` is what all results are like, as a matrix of so many rows; `inputs` are the
  /// program's. Raises Unsupported where an input is neither of the result's shape, nor like one
  /// row of it, nor one number, or where the program needs memory of its own.
  ProgramRows(ProgramRef program, const TensorSpec& result, std::span<const TensorSpec> inputs,
              std::span<const TensorSpec> outputs, int64_t rows, int64_t rows_of_a_block);

  /// Over block number `block`, given the whole tensors. The first input may be the first output.
  void run(const Arg& first, std::span<const Arg> more, std::span<const Arg> outputs,
           int64_t block) const;

 private:
  ProgramRef program_;
  int64_t block_elements_ = 0;
  int64_t whole_blocks_ = 0;
  std::vector<bool> goes_along_;  ///< by input: every block reads another part of it
  std::shared_ptr<const Prepared> whole_, rest_;
};

/// The program before an anchor's first operand, or after its first result, by blocks of rows.
class RowsAround {
 public:
  /// Raises Unsupported where ProgramRows does, and where results would be written over that are
  /// read again, or the operand is not kept.
  /// `result` is the dtype of the anchor's first result.
  RowsAround(const AnchoredParams& params, const Specs& specs, DType result, int64_t rows,
             int64_t rows_of_a_block);
  void before(const AnchoredParams& params, const Call& call, int64_t block) const;
  void after(const AnchoredParams& params, const Call& call, int64_t block) const;

  /// Inputs of the whole that must be row-major (bit i: input i).
  static uint32_t row_major_inputs(const AnchoredParams& params, const Specs& specs);

 private:
  std::optional<ProgramRows> before_, after_;
};

}  // namespace mica
