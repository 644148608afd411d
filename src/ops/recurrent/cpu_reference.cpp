// Every number as a double, products by three loops.
#include "mica/ops/recurrent/gemm.h"
#include "mica/ops/recurrent/kernels.h"
#include "mica/ops/reference.h"

namespace mica {
namespace {

/// out (m, n) = a b + bias, where a is (m, k) or lies transposed, and b (k, n) likewise.
struct Naive {
  int64_t m, n, k;
  bool a_transposed = false;
  bool b_transposed = false;

  void run(const double* a, const double* b, const double* bias, double* out) const {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = bias ? bias[j] : 0;
        for (int64_t l = 0; l < k; ++l)
          sum += a[a_transposed ? l * m + i : i * k + l] * b[b_transposed ? j * k + l : l * n + j];
        out[i * n + j] = sum;
      }
  }
};

Naive naive(const RecurrentProblem& p, RecurrentProduct which) {
  const int64_t all = p.steps * p.batch;
  switch (which) {
    case RecurrentProduct::input:
      return {all, p.rows(), p.inputs, false, true};
    case RecurrentProduct::step:
      return {p.batch, p.rows(), p.outputs, false, true};
    case RecurrentProduct::project:
      return {p.batch, p.outputs, p.units, false, true};
    case RecurrentProduct::step_back:
      return {p.batch, p.outputs, p.rows()};
    case RecurrentProduct::project_back:
      return {p.batch, p.units, p.outputs};
    case RecurrentProduct::input_back:
      return {all, p.inputs, p.rows()};
    case RecurrentProduct::ih:
      return {p.rows(), p.inputs, all, true};
    case RecurrentProduct::hh:
      return {p.rows(), p.outputs, all, true};
    default:
      return {p.outputs, p.units, all, true};
  }
}

struct ReferenceEngine {
  const RecurrentProblem& problem;
  const void* bias = nullptr;
  const RecurrentPasses& passes = recurrent_cpu_passes();
  DType dtype = DType::f64;
  int64_t size = sizeof(double);
  Encoder* encoder = nullptr;

  void product(RecurrentProduct which, const void* a, const void* b, void* out) const {
    naive(problem, which)
        .run(static_cast<const double*>(a), static_cast<const double*>(b),
             static_cast<const double*>(which == RecurrentProduct::input ? bias : nullptr),
             static_cast<double*>(out));
  }
  void weight_gradient(RecurrentProduct which, const void* dy, const void* x, void* dw,
                       void* db) const {
    const Naive n = naive(problem, which);
    product(which, dy, x, dw);
    for (int64_t i = 0; db && i < n.m; ++i) {
      double sum = 0;
      for (int64_t l = 0; l < n.k; ++l) sum += static_cast<const double*>(dy)[l * n.m + i];
      static_cast<double*>(db)[i] = sum;
    }
  }
};

/// Doubles in the workspace: counts them where there is none.
class Doubles {
 public:
  explicit Doubles(void* workspace) : base_(static_cast<double*>(workspace)) {}
  double* take(int64_t n) {
    double* at = base_ ? base_ + taken_ : nullptr;
    taken_ += n;
    return at;
  }
  /// A tensor's values; null where it is undefined.
  double* of(const Arg& arg) {
    if (!arg.defined()) return nullptr;
    double* at = take(arg.numel());
    const DoubleValues values(arg);
    for (int64_t i = 0; at && i < arg.numel(); ++i) at[i] = values[i];
    return at;
  }
  int64_t taken() const { return taken_; }

 private:
  double* base_;
  int64_t taken_ = 0;
};

void give(const Arg& arg, const double* from) {
  const DoubleValues values(arg);
  for (int64_t i = 0; i < arg.numel(); ++i) values.set(i, from[i]);
}

/// Computes with the doubles in a workspace, or counts them.
void forward(const RecurrentParams& params, const Call& call, Doubles& space) {
  using namespace recurrent_io;
  const auto in = [&](int i) { return space.of(call.in[static_cast<size_t>(i)]); };
  const RecurrentProblem p(params.mode, params.reverse, *call.in[kX].spec, *call.in[kWHh].spec,
                           call.in[kWHr].defined());
  const RecurrentPasses& passes = recurrent_cpu_passes();
  const int64_t states = p.steps * p.batch;
  RecurrentForward f{};
  f.x = in(kX);
  const double* w_ih = in(kWIh);
  const double* w_hh = in(kWHh);
  const double* b_ih = in(kBIh);
  const double* b_hh = in(kBHh);
  f.w_hr = in(kWHr);
  f.h0 = in(kH0);
  f.c0 = in(kC0);
  auto* lengths = reinterpret_cast<int64_t*>(space.take(p.batch));
  double* packed_ih = space.take(p.rows() * p.inputs);
  double* packed_hh = space.take(p.rows() * p.outputs);
  double* bias = space.take(p.rows());
  f.w_ih = packed_ih;
  f.w_hh = packed_hh;
  f.keep = true;
  f.y = space.take(states * p.outputs);
  f.hn = space.take(p.batch * p.outputs);
  f.cn = space.take(p.batch * p.units);
  f.gates = space.take(states * p.rows());
  f.cells = space.take(states * p.units);
  f.step = space.take(p.batch * p.rows());
  f.hidden = space.take(p.batch * p.units);
  f.projected = space.take(p.batch * p.outputs);
  f.state = space.take(p.batch * p.outputs);
  if (!f.x) return;
  passes.pack(p, DType::f64, w_ih, p.inputs, true, packed_ih, nullptr);
  passes.pack(p, DType::f64, w_hh, p.outputs, false, packed_hh, nullptr);
  if (b_ih) passes.pack_bias(p, DType::f64, b_ih, b_hh, bias, nullptr);
  if (const Arg& given = call.in[kLengths]; given.defined()) {
    for (int64_t n = 0; n < p.batch; ++n) lengths[n] = given.as<int64_t>()[n * given.strides()[0]];
    f.lengths = lengths;
  } else {
    f.state = nullptr;
  }
  const ReferenceEngine engine{p, b_ih ? bias : nullptr};
  if (f.lengths) passes.check_lengths(p, f.lengths, nullptr);
  engine.product(RecurrentProduct::input, f.x, f.w_ih, f.gates);
  walk_forward(engine, p, f);
  give(call.out[kY], static_cast<double*>(f.y));
  give(call.out[kHn], static_cast<double*>(f.hn));
  give(call.out[kCn], static_cast<double*>(f.cn));
  give(call.out[kGates], static_cast<double*>(f.gates));
  give(call.out[kCells], static_cast<double*>(f.cells));
}

void backward(const RecurrentGradParams& params, const Call& call, Doubles& space) {
  using namespace recurrent_grad_io;
  const auto in = [&](int i) { return space.of(call.in[static_cast<size_t>(i)]); };
  const RecurrentProblem p(params.mode, params.reverse, *call.in[kX].spec, *call.in[kWHh].spec,
                           call.in[kWHr].defined());
  const RecurrentPasses& passes = recurrent_cpu_passes();
  const int64_t states = p.steps * p.batch;
  RecurrentBackward b{};
  b.x = in(kX);
  const double* w_ih = in(kWIh);
  const double* w_hh = in(kWHh);
  b.w_hr = in(kWHr);
  b.h0 = in(kH0);
  b.c0 = in(kC0);
  b.y = in(kY);
  b.gates = in(kGates);
  b.cells = in(kCells);
  b.dy = in(kDy);
  b.dhn = in(kDhn);
  b.dcn = in(kDcn);
  auto* lengths = reinterpret_cast<int64_t*>(space.take(p.batch));
  double* packed_ih = space.take(p.rows() * p.inputs);
  double* packed_hh = space.take(p.rows() * p.outputs);
  b.w_ih = packed_ih;
  b.w_hh = packed_hh;
  b.dx = space.take(states * p.inputs);
  double* dw_ih = space.take(p.rows() * p.inputs);
  double* dw_hh = space.take(p.rows() * p.outputs);
  double* db = space.take(p.rows());
  b.dw_ih = dw_ih;
  b.dw_hh = dw_hh;
  b.db = db;
  b.dw_hr = space.take(p.outputs * p.units);
  b.dh0 = space.take(p.batch * p.outputs);
  b.dc0 = space.take(p.batch * p.units);
  b.carry = space.take(p.batch * p.outputs);
  b.dc = space.take(p.batch * p.units);
  b.back = space.take(p.batch * p.outputs);
  b.dgates = space.take(states * p.rows());
  b.before = space.take(states * p.outputs);
  b.dh = space.take(states * p.outputs);
  b.hidden = space.take(states * p.units);
  b.dhidden = space.take(p.batch * p.units);
  double* unpacked = space.take(p.gate_rows() * std::max(p.inputs, p.outputs));
  if (!b.x) return;
  passes.pack(p, DType::f64, w_ih, p.inputs, true, packed_ih, nullptr);
  passes.pack(p, DType::f64, w_hh, p.outputs, false, packed_hh, nullptr);
  if (const Arg& given = call.in[kLengths]; given.defined()) {
    for (int64_t n = 0; n < p.batch; ++n) lengths[n] = given.as<int64_t>()[n * given.strides()[0]];
    b.lengths = lengths;
  }
  const ReferenceEngine engine{p};
  walk_backward(engine, p, b);
  const auto give_rows = [&](int output, const double* from, int64_t cols, bool of_input) {
    passes.unpack(p, DType::f64, from, cols, of_input, unpacked, nullptr);
    give(call.out[static_cast<size_t>(output)], unpacked);
  };
  give(call.out[kDx], static_cast<double*>(b.dx));
  give_rows(kDwIh, dw_ih, p.inputs, true);
  give_rows(kDwHh, dw_hh, p.outputs, false);
  give_rows(kDbIh, db, 1, true);
  give_rows(kDbHh, db, 1, false);
  give(call.out[kDwHr], static_cast<double*>(b.dw_hr));
  give(call.out[kDh0], static_cast<double*>(b.dh0));
  give(call.out[kDc0], static_cast<double*>(b.dc0));
}

template <auto compute, class P>
std::shared_ptr<KernelState> prepare(const P& params, const Specs& specs) {
  std::vector<Arg> in;
  for (const TensorSpec& spec : specs.in) in.push_back({nullptr, &spec});
  Doubles count(nullptr);
  compute(params, Call{in, {}, nullptr, nullptr}, count);
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes = static_cast<size_t>(count.taken()) * sizeof(double);
  return state;
}

template <auto compute, class P>
void run(const P& params, const KernelState&, const Call& call) {
  Doubles space(call.workspace);
  compute(params, call, space);
}

}  // namespace

Kernel recurrent_reference_kernel() {
  using P = RecurrentParams;
  return kernel<supports_all<P>, prepare<forward, P>, run<forward, P>>("reference");
}
Kernel recurrent_grad_reference_kernel() {
  using P = RecurrentGradParams;
  return kernel<supports_all<P>, prepare<backward, P>, run<backward, P>>("reference");
}

}  // namespace mica
