#pragma once

#include <optional>
#include <string_view>

#include "mica/ops/linalg/lanes.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/runtime/cpu/callers.h"

// The CPU kernels of an op over batches of matrices, made from one description of it:
//
//   struct Cholesky : MatrixOp<CholeskyParams> {
//     using MatrixOp::MatrixOp;
//     double work() const;                           about how many multiplications a matrix takes
//     template <class T> auto by_reference() const;  a function of a matrix's place in the batch
//     template <class T> auto by_lapack() const;     the same by LAPACK; none of a size is 0
//     template <class T> auto by_rows() const;       of small real matrices, one at a time
//     template <class T> auto in_lanes() const;      of the place of the first of kLanes<T>
//     matrices template <class T> void check_input() const;   raises before anything is computed
//     void check_results() const;                    raises afterwards
//   };
//
// by_reference and one of the others is all that is needed. Each thread makes its function once, so
// that the memory it captures serves all matrices of a range.
namespace mica::linalg {

/// A call, seen as a batch of matrices (m, n) in its first input.
template <class P>
struct MatrixOp {
  using Params = P;

  const P& p;
  const Call& call;
  int64_t m, n;
  int64_t k;  ///< the smaller of both
  int64_t count;

  MatrixOp(const P& params, const Call& c)
      : p(params),
        call(c),
        m(rows_of(c.in[0].shape())),
        n(columns_of(c.in[0].shape())),
        k(std::min(m, n)),
        count(matrices_in(c.in[0].shape())) {}

  /// What belongs to matrix b of an input or output.
  template <class T>
  const T* in(size_t i, int64_t b) const {
    return call.in[i].as<T>() + b * each(call.in[i]);
  }
  template <class T>
  T* out(size_t i, int64_t b) const {
    return call.out[i].as<T>() + b * each(call.out[i]);
  }
  /// As many matrices of an input, or of an output, as there are lanes.
  template <class T>
  void fill_lanes(size_t i, int64_t first, LaneBuffer<T>& to) const {
    load_lanes(call.in[i].as<T>(), count, first, each(call.in[i]), to.data());
  }
  template <class T>
  void take_lanes(LaneBuffer<T>& from, size_t i, int64_t first) const {
    store_lanes(from.data(), call.out[i].as<T>(), count, first, each(call.out[i]));
  }
  /// One integer of each lane.
  template <class T>
  void take_numbers(LaneMask<T> from, size_t i, int64_t first) const {
    for (int l = 0; l < used_lanes<T>(first); ++l)
      *out<int32_t>(i, first + l) = static_cast<int32_t>(from[l]);
  }
  template <class T>
  int used_lanes(int64_t first) const {
    return static_cast<int>(std::min<int64_t>(kLanes<T>, count - first));
  }

 private:
  int64_t each(const Arg& a) const { return a.numel() / count; }
};

enum class Way { reference, lapack, rows, lanes };

template <class Op, Way way, class T>
void compute_matrices(const Op& op) {
  if constexpr (requires { op.template check_input<T>(); }) op.template check_input<T>();
  if constexpr (way == Way::lanes) {
    if constexpr (!kIsComplex<T>)
      for_matrices((op.count + kLanes<T> - 1) / kLanes<T>, op.work(),
                   [&](int64_t begin, int64_t end) {
                     auto compute = op.template in_lanes<T>();
                     for (int64_t group = begin; group < end; ++group) compute(group * kLanes<T>);
                   });
  } else if constexpr (way == Way::rows) {
    if constexpr (!kIsComplex<T>)
      for_matrices(op.count, op.work(), [&](int64_t begin, int64_t end) {
        auto compute = op.template by_rows<T>();
        for (int64_t b = begin; b < end; ++b) compute(b);
      });
  } else {
    for_matrices(op.count, op.work(), [&](int64_t begin, int64_t end) {
      // On small matrices LAPACK's threads take longer to meet than to compute.
      constexpr int64_t kLargestAlone = 256;
      std::optional<ThreadLimit> alone;
      if (op.k <= kLargestAlone) alone.emplace(1);
      auto compute = [&] {
        if constexpr (way == Way::lapack)
          return op.template by_lapack<T>();
        else
          return op.template by_reference<T>();
      }();
      for (int64_t b = begin; b < end; ++b) compute(b);
    });
  }
}

template <class Op, Way way>
void run_matrices(const typename Op::Params& p, const Call& call) {
  const Op op(p, call);
  bool empty = false;
  for (const Arg& in : call.in)
    empty = empty || rows_of(in.shape()) == 0 || columns_of(in.shape()) == 0;
  switch_matrix(call.in[0].dtype(), [&]<class T>() {
    // LAPACK takes no sizes of 0.
    if (way == Way::lapack && empty)
      compute_matrices<Op, Way::reference, T>(op);
    else
      compute_matrices<Op, way, T>(op);
  });
  if constexpr (requires { op.check_results(); }) op.check_results();
}

/// Every input is wanted row-major.
inline Support row_major(const Specs& s, Support support) {
  for (size_t i = 0; i < s.in.size(); ++i) support.contiguous |= IndexSet{static_cast<int>(i)};
  return support;
}
inline int64_t largest_size(const Specs& s) {
  int64_t largest = 0;
  for (const TensorSpec& in : s.in)
    largest = std::max({largest, rows_of(in.shape), columns_of(in.shape)});
  return largest;
}

template <class Op>
Support supports_lanes(const typename Op::Params& p, const Specs& s) {
  if constexpr (requires { Op::refuses_lanes(p, s); })
    if (const char* reason = Op::refuses_lanes(p, s)) return Support::no(reason);
  if (largest_size(s) > kLargestInLanes)
    return Support::no("it takes matrices of up to 32 rows and columns");
  const int64_t lanes = s.in[0].dtype == DType::f64 ? kLanes<double> : kLanes<float>;
  const bool full = matrices_in(s.in[0].shape) >= lanes;
  return row_major(s, full ? Support::yes() : Support::possible());
}

template <class Op>
Support supports_rows(const typename Op::Params&, const Specs& s) {
  if (is_complex(s.in[0].dtype)) return Support::no("it takes real matrices");
  const bool fast = largest_size(s) <= Op::kLargestByRows;  // as LAPACK
  return row_major(s, fast ? Support::yes() : Support::possible());
}

template <class P>
Support supports_lapack(const P&, const Specs& s) {
  constexpr int64_t kMost = 20000;  // whose squares LAPACK's 32-bit integers count
  if (largest_size(s) > kMost) return Support::no("a size is past 20000");
  return row_major(s, Support::yes());
}
/// Selection goes on to the next kernel where there is no LAPACK.
template <class P>
std::shared_ptr<KernelState> prepare_lapack(const P&, const Specs&) {
  lapack();
  return std::make_shared<KernelState>();
}
template <class Op>
void run_lapack(const typename Op::Params& p, const KernelState&, const Call& call) {
  run_matrices<Op, Way::lapack>(p, call);
}

template <class P>
Support supports_reference(const P&, const Specs& s) {
  return row_major(s, Support::possible());
}

template <class Op>
KernelList matrix_kernels() {
  using P = typename Op::Params;
  KernelList list;
  if constexpr (requires(const Op& op) { op.template in_lanes<float>(); })
    list.push_back(kernel<supports_lanes<Op>, run_matrices<Op, Way::lanes>>("batched"));
  if constexpr (requires(const Op& op) { op.template by_rows<float>(); })
    list.push_back(kernel<supports_rows<Op>, run_matrices<Op, Way::rows>>("rows"));
  if constexpr (requires(const Op& op) { op.template by_lapack<float>(); })
    list.push_back(kernel<supports_lapack<P>, prepare_lapack<P>, run_lapack<Op>>("lapack"));
  list.push_back(kernel<supports_reference<P>, run_matrices<Op, Way::reference>>("reference"));
  // `rows` says so itself: eigenvalues of real matrices are complex.
  for (Kernel& k : list) k.takes_complex = std::string_view(k.name) != "batched";
  return list;
}

}  // namespace mica::linalg
