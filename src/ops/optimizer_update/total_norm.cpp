#include <cmath>

#include "mica/ops/copy/copy.h"
#include "mica/ops/optimizer_update/multi_tensor.h"
#include "mica/ops/optimizer_update/optimizer_update.h"
#include "mica/ops/optimizer_update/total_norm.h"

namespace mica {
namespace {

constexpr int64_t kPiece = 16384;  ///< elements of a partial sum

int64_t pieces_of(int64_t n) { return (n + kPiece - 1) / kPiece; }

void infer(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  DType dtype = DType::f32;
  for (size_t i = 0; i < in.size(); ++i) {
    check<DTypeError>(is_floating(in[i].dtype), "total_norm: tensor {} must be floating, got {}", i,
                      in[i].dtype);
    if (in[i].dtype == DType::f64) dtype = DType::f64;
  }
  out.add({}, dtype);
}

/// How many pieces there are; their sums are the workspace.
struct Pieces : KernelState {
  int64_t count = 0;
};

std::shared_ptr<Pieces> prepare(const NoParams&, const Specs& s) {
  auto state = std::make_shared<Pieces>();
  for (const TensorSpec& spec : s.in) state->count += pieces_of(spec.numel());
  state->workspace_bytes = static_cast<size_t>(state->count) * sizeof(double);
  return state;
}

/// Eight sums side by side, which the compiler makes vectors of.
template <class C>
void add_squares(const C* x, int64_t n, double (&sums)[8]) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; ++j) {
      const auto v = static_cast<double>(x[i + j]);
      sums[j] += v * v;
    }
  for (; i < n; ++i) {
    const auto v = static_cast<double>(x[i]);
    sums[i % 8] += v * v;
  }
}

template <class T>
double sum_of_squares(const T* x, int64_t n) {
  double sums[8] = {};
  RunReader<T> read;
  for_runs<T>(n, [&](int64_t i, int64_t count) { add_squares(read(x + i, count), count, sums); });
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

void put(const Arg& out, double value) {
  if (out.dtype() == DType::f64) {
    *out.as<double>() = value;
  } else {
    *out.as<float>() = static_cast<float>(value);
  }
}

void run_pieces(const NoParams&, const Pieces& pieces, const Call& c) {
  auto* sums = static_cast<double*>(c.workspace);
  constexpr int64_t kGrain = 4;
  parallel_for(pieces.count, kGrain, [&](int64_t begin, int64_t end) {
    int64_t first = 0;
    for (size_t k = 0; k < c.in.size() && first < end; ++k) {
      const int64_t n = c.in[k].numel();
      const int64_t last = first + pieces_of(n);
      for (int64_t piece = std::max(first, begin); piece < std::min(last, end); ++piece) {
        const int64_t at = (piece - first) * kPiece;
        switch_float(c.in[k].dtype(), "total_norm", [&]<class T>() {
          sums[piece] = sum_of_squares(c.in[k].as<T>() + at, std::min(kPiece, n - at));
        });
      }
      first = last;
    }
  });
  double sum = 0;
  for (int64_t piece = 0; piece < pieces.count; ++piece) sum += sums[piece];
  put(c.out[0], std::sqrt(sum));
}

void run_reference(const NoParams&, const Call& c) {
  double sum = 0;
  for (const Arg& x : c.in)
    switch_float(x.dtype(), "total_norm", [&]<class T>() {
      for (int64_t i = 0; i < x.numel(); ++i) {
        const auto v = static_cast<double>(x.as<T>()[i]);
        sum += v * v;
      }
    });
  put(c.out[0], std::sqrt(sum));
}

}  // namespace

const OpDef& total_norm_op() {
  static OpDef def = Op<NoParams>("total_norm")
                         .inputs({"tensors..."})
                         .outputs({"norm"})
                         .infer<infer>()
                         .no_gradient("it is for gradients")
                         .cpu({kernel<total_norm_supports, prepare, run_pieces>("vectorized"),
                               kernel<total_norm_supports, run_reference>("reference")})
                         .build();
  return def;
}

Tensor total_norm(const Tensors& tensors) {
  check(!tensors.empty(), "total_norm: expected tensors, got none");
  Tensors dense;
  for (const Tensor& t : tensors)
    dense.push_back(t.defined() && !t.spec().is_channels_last() ? contiguous(t) : t);
  return dispatch(total_norm_op(), NoParams{}, dense)[0];
}

}  // namespace mica
