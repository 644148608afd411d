#include "mica/ops/anchored/program_rows.h"

#include <algorithm>
#include <array>

#include "mica/core/check.h"
#include "mica/ops/anchored/program_pass.h"
#include "mica/ops/fused/fused.h"

namespace mica {
namespace {

/// The spec of so many rows of n numbers, or of one row, or one number.
TensorSpec row_major(DType dtype, const Shape& shape) {
  TensorSpec s = TensorSpec::contiguous(shape, dtype);
  s.aligned = false;
  return s;
}

/// Whether it is one row beside all of a result's, of n numbers: these are its last axes.
bool is_row(const TensorSpec& s, const TensorSpec& result, int64_t n) {
  int64_t count = 1;
  for (int d = 1; count < n && d <= s.rank(); ++d) {
    if (s.shape[s.rank() - d] != result.shape[result.rank() - d]) return false;
    count *= s.shape[s.rank() - d];
  }
  return count == n && s.numel() == n;
}

Arg part(const Arg& whole, int64_t element) {
  Arg arg = whole;
  arg.data = whole.as<std::byte>() + element * static_cast<int64_t>(size_of(whole.dtype()));
  return arg;
}

}  // namespace

ProgramRows::ProgramRows(ProgramRef program, const TensorSpec& result,
                         std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs,
                         int64_t rows, int64_t rows_of_a_block)
    : program_(program) {
  const int64_t n = rows > 0 ? result.numel() / rows : 0;
  const auto prepared = [&](int64_t count) {
    std::vector<TensorSpec> in;
    std::vector<TensorSpec> out;
    for (size_t k = 0; k < inputs.size(); ++k)
      in.push_back(row_major(inputs[k].dtype, goes_along_[k]           ? Shape{count, n}
                                              : inputs[k].numel() == 1 ? Shape{}
                                                                       : Shape{n}));
    for (const TensorSpec& o : outputs) out.push_back(row_major(o.dtype, {count, n}));
    const FusedParams params{program_};
    auto kernel = select(fused_op(), ParamsRef::of(params), {in, out}, result.device);
    check<Unsupported>(!kernel->needs_copies() && kernel->state->workspace_bytes == 0,
                       "the program needs memory of its own");
    return kernel;
  };
  for (const TensorSpec& s : inputs) {
    const bool alike = s.shape == result.shape;
    check<Unsupported>(s.numel() == 1 || (s.is_contiguous() && (alike || is_row(s, result, n))),
                       "the program reads something that does not lie in rows");
    goes_along_.push_back(alike && result.numel() != 1);
  }
  block_elements_ = rows_of_a_block * n;
  whole_blocks_ = rows / rows_of_a_block;
  if (whole_blocks_ > 0) whole_ = prepared(rows_of_a_block);
  if (const int64_t rest = rows % rows_of_a_block; rest > 0) rest_ = prepared(rest);
}

void ProgramRows::run(const Arg& first, std::span<const Arg> more, std::span<const Arg> outputs,
                      int64_t block) const {
  std::array<Arg, Program::kMostInputs> in;
  std::array<Arg, Program::kMostOutputs> out;
  const int64_t begin = block * block_elements_;
  for (size_t k = 0; k <= more.size(); ++k) {
    const Arg& whole = k == 0 ? first : more[k - 1];
    in[k] = goes_along_[k] ? part(whole, begin) : whole;
  }
  for (size_t k = 0; k < outputs.size(); ++k) out[k] = part(outputs[k], begin);
  const FusedParams params{program_};
  (block < whole_blocks_ ? whole_ : rest_)
      ->run(&params, {{in.data(), more.size() + 1}, {out.data(), outputs.size()}});
}

RowsAround::RowsAround(const AnchoredParams& params, const Specs& s, DType result, int64_t rows,
                       int64_t rows_of_a_block) {
  const Anchored& a = *params.call;
  const auto inputs = [&](TensorSpec first, int begin, int count) {
    std::vector<TensorSpec> all = {std::move(first)};
    for (int i = begin; i < begin + count; ++i) all.push_back(s.in[static_cast<size_t>(i)]);
    return all;
  };
  if (a.before.program) {
    check<Unsupported>(a.keeps_operand, "there is no memory for the operand");
    before_.emplace(a.before, s.in[0], inputs(s.in[0], a.op->inputs(), a.more_before()),
                    s.out.last(1), rows, rows_of_a_block);
  }
  if (!a.after.program) return;
  const FusedParams program{a.after};
  check<Unsupported>(a.keeps_result || (s.out[0].dtype == result && a.after->outputs.size() == 1 &&
                                        fused_op().may_overwrite(&program, 0, 0)),
                     "the program cannot be written over the result");
  after_.emplace(a.after, s.out[0],
                 inputs(s.out[result_place(a)], a.input_after(1), a.more_after()),
                 s.out.first(a.after->outputs.size()), rows, rows_of_a_block);
}

void RowsAround::before(const AnchoredParams& params, const Call& call, int64_t block) const {
  const Anchored& a = *params.call;
  if (before_)
    before_->run(
        call.in[0],
        call.in.subspan(static_cast<size_t>(a.op->inputs()), static_cast<size_t>(a.more_before())),
        call.out.last(1), block);
}

void RowsAround::after(const AnchoredParams& params, const Call& call, int64_t block) const {
  const Anchored& a = *params.call;
  if (after_)
    after_->run(
        call.out[result_place(a)],
        call.in.subspan(static_cast<size_t>(a.input_after(1)), static_cast<size_t>(a.more_after())),
        call.out.first(a.after->outputs.size()), block);
}

uint32_t RowsAround::row_major_inputs(const AnchoredParams& params, const Specs& s) {
  const Anchored& a = *params.call;
  uint32_t which = 0;
  for (int i = 0; i < a.inputs(); ++i)
    if (i < a.op->inputs() || s.in[static_cast<size_t>(i)].shape == s.out[0].shape)
      which |= 1U << i;
  return which;
}

}  // namespace mica
