#pragma once

#include <vector>

#include "mica/core/check.h"
#include "mica/op/kernel.h"
#include "mica/runtime/cpu/convert.h"
#include "mica/runtime/cpu/parallel.h"

// What CPU kernels over sparse matrices are written with.
namespace mica {

/// Raises unless the specs are those of a pattern; `op` names the operator.
void check_pattern(const char* op, const TensorSpec& crow, const TensorSpec& col, int64_t columns);
/// The same of the values at its entries.
void check_values(const char* op, const TensorSpec& col, const TensorSpec& values);

/// A pattern in memory. That its rows begin and end within the entries has been looked at; that
/// columns are in range is not known before `column` gave them.
template <class I>
struct CsrPattern {
  const char* op;
  const I* crow;
  const I* col;
  int64_t rows, columns, entries;

  CsrPattern(const char* name, const Arg& crow_arg, int64_t entry_count)
      : op(name),
        crow(crow_arg.as<I>()),
        col(nullptr),
        rows(crow_arg.numel() - 1),
        columns(0),
        entries(entry_count) {
    check<IndexError>(crow[0] == 0 && static_cast<int64_t>(crow[rows]) == entries,
                      "{}: crow must go from 0 to the number of entries, {}, got {} and {}", op,
                      entries, static_cast<int64_t>(crow[0]), static_cast<int64_t>(crow[rows]));
    for (int64_t r = 0; r < rows; ++r)
      check<IndexError>(crow[r] <= crow[r + 1], "{}: crow must not fall, got {} after {} at [{}]",
                        op, static_cast<int64_t>(crow[r + 1]), static_cast<int64_t>(crow[r]),
                        r + 1);
  }
  CsrPattern(const char* name, const Arg& crow_arg, const Arg& col_arg, int64_t column_count)
      : CsrPattern(name, crow_arg, col_arg.numel()) {
    col = col_arg.as<I>();
    columns = column_count;
  }

  int64_t begin(int64_t row) const { return static_cast<int64_t>(crow[row]); }
  int64_t end(int64_t row) const { return static_cast<int64_t>(crow[row + 1]); }
  int64_t column(int64_t entry) const {
    const auto c = static_cast<int64_t>(col[entry]);
    if (static_cast<uint64_t>(c) >= static_cast<uint64_t>(columns)) [[unlikely]]
      fail<IndexError>("{}: index {} at [{}] is out of range for {} columns", op, c, entry,
                       columns);
    return c;
  }
  void check_columns() const {
    for_rows(1, [&](int64_t first, int64_t last) {
      for (int64_t e = begin(first); e < crow[last]; ++e) (void)column(e);
    });
  }

  /// Calls f(first, last) for ranges of rows in several threads, each with about as many entries;
  /// `work` is what an entry takes, in additions.
  template <class F>
  void for_rows(int64_t work, F&& f) const {
    constexpr int64_t kGrain = 1 << 15;
    parallel_for(entries + rows, std::max<int64_t>(kGrain / std::max<int64_t>(work, 1), 1),
                 [&](int64_t from, int64_t to) {
                   const int64_t first = row_at(from);
                   const int64_t last = row_at(to);
                   if (first < last) f(first, last);
                 });
  }

 private:
  /// The first row with as many rows and entries before it; all of them end the rows.
  int64_t row_at(int64_t place) const {
    int64_t low = 0;
    int64_t high = rows;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (static_cast<int64_t>(crow[middle]) + middle < place)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

/// Calls f with the type of indices, int32_t or int64_t.
template <class F>
void switch_index(DType t, F&& f) {
  if (t == DType::i32)
    f.template operator()<int32_t>();
  else
    f.template operator()<int64_t>();
}

/// The floating operands of a call in the type they are computed in, C: where they lie, or, of f16
/// and bf16, as floats in the workspace.
template <class C>
class ComputeOperands {
 public:
  explicit ComputeOperands(const Call& call) : next_(static_cast<std::byte*>(call.workspace)) {
    for (const Arg& arg : call.in) in_.push_back(is_floating(arg.dtype()) ? read(arg) : nullptr);
    for (const Arg& arg : call.out)
      out_.push_back(!is_floating(arg.dtype()) ? nullptr
                     : is_half(arg.dtype())    ? take(arg)
                                               : arg.as<C>());
  }
  /// Of the call `specs` are of.
  static size_t workspace_bytes(const Specs& specs);

  const C* in(size_t i) const { return in_[i]; }
  C* out(size_t i) const { return out_[i]; }
  /// Puts results where they belong.
  void finish(const Call& call) const {
    for (size_t i = 0; i < out_.size(); ++i) {
      const Arg& arg = call.out[i];
      if (!is_floating(arg.dtype()) || !is_half(arg.dtype())) continue;
      switch_half(arg, [&]<class T>() {
        convert(arg.numel(), [&](int64_t first, int64_t n) {
          store_run(reinterpret_cast<const float*>(out_[i]) + first, n, arg.as<T>() + first, 1);
        });
      });
    }
  }

 private:
  static constexpr size_t kAlignment = 64;
  static bool is_half(DType t) { return size_of(t) == 2; }
  static size_t bytes(int64_t numel) {
    return (static_cast<size_t>(numel) * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  }
  template <class F>
  static void switch_half(const Arg& arg, F&& f) {
    if (arg.dtype() == DType::f16)
      f.template operator()<Half>();
    else
      f.template operator()<BFloat16>();
  }
  template <class F>
  static void convert(int64_t n, F&& f) {
    parallel_for(n, 1 << 15, [&](int64_t first, int64_t last) { f(first, last - first); });
  }
  C* take(const Arg& arg) {
    auto* at = reinterpret_cast<C*>(next_);
    next_ += bytes(arg.numel());
    return at;
  }
  C* read(const Arg& arg) {
    if (!is_half(arg.dtype())) return arg.as<C>();
    C* at = take(arg);
    switch_half(arg, [&]<class T>() {
      convert(arg.numel(), [&](int64_t first, int64_t n) {
        load_run(arg.as<T>() + first, 1, n, reinterpret_cast<float*>(at) + first);
      });
    });
    return at;
  }

  std::byte* next_;
  std::vector<C*> in_, out_;
};

template <class C>
size_t ComputeOperands<C>::workspace_bytes(const Specs& specs) {
  size_t total = 0;
  for (const auto tensors : {specs.in, specs.out})
    for (const TensorSpec& s : tensors)
      if (is_floating(s.dtype) && is_half(s.dtype)) total += bytes(s.numel());
  return total;
}

/// `prepare` of kernels that use ComputeOperands.
template <class P>
std::shared_ptr<KernelState> prepare_operands(const P&, const Specs& specs) {
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes = ComputeOperands<float>::workspace_bytes(specs);
  return state;
}

/// `supports` of kernels that read their inputs row-major.
template <class P>
Support supports_dense(const P&, const Specs& specs) {
  IndexSet all;
  for (int i = 0; i < static_cast<int>(specs.in.size()); ++i) all |= IndexSet({i});
  return Support::yes().with_contiguous(all);
}

/// Calls f.template operator()<I, C>(operands) for the index type of crow and the type that values
/// of `dtype` are computed in, then puts the results where they belong.
template <class F>
void run_sparse(const Call& call, DType index, DType dtype, F&& f) {
  switch_index(index, [&]<class I>() {
    const auto run = [&]<class C>() {
      const ComputeOperands<C> operands(call);
      f.template operator()<I, C>(operands);
      operands.finish(call);
    };
    if (dtype == DType::f64)
      run.template operator()<double>();
    else
      run.template operator()<float>();
  });
}

}  // namespace mica
