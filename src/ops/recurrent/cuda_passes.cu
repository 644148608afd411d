// The passes of a recurrent layer on CUDA, a thread for each unit of each sequence; slots of a unit
// lie together, (N, H, S).
#include "mica/ops/recurrent/calls.h"
#include "mica/ops/recurrent/cell.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/fault.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace cuda;
using namespace recurrent_cell_math;
using Problem = RecurrentProblem;

constexpr int kThreads = 256;

/// What kernels need of a problem.
struct Sizes {
  int steps, batch, units, outputs;
  bool reverse, relu;
  explicit Sizes(const Problem& p)
      : steps(static_cast<int>(p.steps)),
        batch(static_cast<int>(p.batch)),
        units(static_cast<int>(p.units)),
        outputs(static_cast<int>(p.outputs)),
        reverse(p.reverse),
        relu(p.mode == RecurrentMode::rnn_relu) {}
};

template <class T>
struct CellArgs {
  const T *from_input, *from_state, *c_before, *h_before;
  T *gates, *c, *h, *state;
  const int64_t* lengths;
  int64_t t;
};

template <class T>
__device__ Compute<T> read(const T* p, int64_t i) {
  return p ? to_compute(p[i]) : Compute<T>(0);
}
template <class T>
__device__ void write(T* p, int64_t i, Compute<T> x) {
  if (p) p[i] = convert<T>(x);
}

template <class T, int S>
__device__ void read_slots(const T* p, int64_t i, Compute<T> (&x)[S]) {
  const auto v = reinterpret_cast<const Vec<T, S>*>(p)[i];
#pragma unroll
  for (int k = 0; k < S; ++k) x[k] = to_compute(v.v[k]);
}
template <class T, int S>
__device__ void write_slots(T* p, int64_t i, const Compute<T> (&x)[S]) {
  if (p) reinterpret_cast<Vec<T, S>*>(p)[i] = pack<T, S>(x);
}

template <class T, RecurrentMode mode>
__global__ void cell_kernel(Sizes s, CellArgs<T> a) {
  using C = Compute<T>;
  constexpr bool kLstm = mode == RecurrentMode::lstm;
  constexpr int kSlots = kLstm || mode == RecurrentMode::gru ? 4 : 1;
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= int64_t{s.batch} * s.units) return;
  C x[kSlots] = {};
  if (a.lengths && a.t >= a.lengths[i / s.units]) {
    if (kLstm) write(a.c, i, read(a.c_before, i));
    write(a.h, i, C(0));
    write_slots<T, kSlots>(a.gates, i, x);
    return;
  }
  C y[kSlots];
  read_slots<T, kSlots>(a.from_input, i, x);
  read_slots<T, kSlots>(a.from_state, i, y);
#pragma unroll
  for (int k = 0; k < kSlots; ++k) x[k] += y[k];
  C h;
  if constexpr (kLstm) {
    const auto step = LstmStep<C>::forward(x[0], x[1], x[2], x[3], read(a.c_before, i));
    x[0] = step.i, x[1] = step.f, x[2] = step.g, x[3] = step.o;
    write(a.c, i, step.c);
    h = step.h;
  } else if constexpr (mode == RecurrentMode::gru) {
    const auto step = GruStep<C>::forward(x[0], x[1], x[2], x[3], read(a.h_before, i));
    x[0] = step.r, x[1] = step.z, x[2] = step.n;
    h = step.h;
  } else {
    h = x[0] = s.relu ? (x[0] <= C(0) ? C(0) : x[0]) : tanh(x[0]);
  }
  write_slots<T, kSlots>(a.gates, i, x);
  write(a.h, i, h);
  write(a.state, i, h);
}

template <class T>
struct CellGradArgs {
  const T *dy, *from_state;
  Compute<T>*carry, *dc;
  const T *gates, *c, *c_before, *h_before;
  T* dgates;
  const int64_t* lengths;
  int64_t t;
};

template <class T, RecurrentMode mode>
__global__ void cell_grad_kernel(Sizes s, CellGradArgs<T> a) {
  using C = Compute<T>;
  constexpr bool kLstm = mode == RecurrentMode::lstm;
  constexpr int kSlots = kLstm || mode == RecurrentMode::gru ? 4 : 1;
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= int64_t{s.batch} * s.units) return;
  C dh = (a.carry ? a.carry[i] : C(0)) + read(a.from_state, i);
  C d[kSlots] = {};
  if (a.lengths && a.t >= a.lengths[i / s.units]) {
    write_slots<T, kSlots>(a.dgates, i, d);
    if (a.carry) a.carry[i] = dh;
    return;
  }
  dh += read(a.dy, i);
  C g[kSlots];
  read_slots<T, kSlots>(a.gates, i, g);
  C carry = 0;
  if constexpr (kLstm) {
    const auto grad = LstmGrad<C>::backward(g[0], g[1], g[2], g[3], read(a.c, i),
                                            read(a.c_before, i), dh, a.dc[i]);
    d[0] = grad.i, d[1] = grad.f, d[2] = grad.g, d[3] = grad.o;
    a.dc[i] = grad.c;
  } else if constexpr (mode == RecurrentMode::gru) {
    const auto grad = GruGrad<C>::backward(g[0], g[1], g[2], g[3], read(a.h_before, i), dh);
    d[0] = grad.r, d[1] = grad.z, d[2] = grad.n, d[3] = grad.q;
    carry = grad.h;
  } else {
    d[0] = s.relu ? (g[0] > C(0) ? dh : C(0)) : dh * (C(1) - g[0] * g[0]);
  }
  write_slots<T, kSlots>(a.dgates, i, d);
  if (a.carry) a.carry[i] = carry;
}

template <class T>
__global__ void store_kernel(Sizes s, const T* h, T* y, T* state, const int64_t* lengths,
                             int64_t t) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= int64_t{s.batch} * s.outputs) return;
  const bool past = t >= lengths[i / s.outputs];
  y[i] = past ? convert<T>(Compute<T>(0)) : h[i];
  if (!past) state[i] = h[i];
}

template <class T>
__global__ void collect_kernel(Sizes s, const T* dy, const T* from_state, Compute<T>* carry, T* dh,
                               const int64_t* lengths, int64_t t) {
  using C = Compute<T>;
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= int64_t{s.batch} * s.outputs) return;
  const C sum = carry[i] + read(from_state, i);
  const bool past = lengths && t >= lengths[i / s.outputs];
  dh[i] = convert<T>(past ? C(0) : sum + read(dy, i));
  carry[i] = past ? sum : C(0);
}

template <class T>
__global__ void states_before_kernel(Sizes s, const T* y, const T* h0, const int64_t* lengths,
                                     T* out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = int64_t{s.batch} * s.outputs;
  if (i >= row * s.steps) return;
  const int64_t t = i / row;
  const int64_t at = i % row;
  const int64_t before = s.reverse ? t + 1 : t - 1;
  const bool first =
      before < 0 || before >= s.steps || (lengths && before >= lengths[at / s.outputs]);
  out[i] = first ? h0[at] : y[before * row + at];
}

template <class T>
__global__ void projected_kernel(int64_t n, const T* gates, const T* cells, T* out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) out[i] = convert<T>(to_compute(gates[4 * i + 3]) * tanh(to_compute(cells[i])));
}

/// Element (slot row, column) of the packed weight and where the weight has it; -1: nowhere.
__device__ int64_t weight_index(int units, int slots, RecurrentMode mode, int64_t i, int64_t cols,
                                bool of_input) {
  const int64_t row = i / cols;
  const int64_t slot = row % slots;
  int64_t gate = slot;
  if (mode == RecurrentMode::gru && slot >= 2) gate = (slot == 2) == of_input ? 2 : -1;
  return gate < 0 ? -1 : (gate * units + row / slots) * cols + i % cols;
}

template <class T>
__global__ void pack_kernel(int units, int slots, RecurrentMode mode, const T* weight, int64_t cols,
                            bool of_input, T* to) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= int64_t{units} * slots * cols) return;
  const int64_t from = weight_index(units, slots, mode, i, cols, of_input);
  to[i] = from < 0 ? convert<T>(Compute<T>(0)) : weight[from];
}
template <class T>
__global__ void unpack_kernel(int units, int slots, RecurrentMode mode, const T* packed,
                              int64_t cols, bool of_input, T* to) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= int64_t{units} * slots * cols) return;
  const int64_t at = weight_index(units, slots, mode, i, cols, of_input);
  if (at >= 0) to[at] = packed[i];
}
template <class T>
__global__ void pack_bias_kernel(int units, int slots, RecurrentMode mode, const T* b_ih,
                                 const T* b_hh, T* to) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= int64_t{units} * slots) return;
  const int64_t x = weight_index(units, slots, mode, i, 1, true);
  const int64_t h = weight_index(units, slots, mode, i, 1, false);
  Compute<T> sum = 0;
  if (x >= 0) sum += to_compute(b_ih[x]);
  if (h >= 0) sum += to_compute(b_hh[h]);
  to[i] = convert<T>(sum);
}

template <class T>
__global__ void widen_kernel(int64_t n, const T* from, Compute<T>* to) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) to[i] = read(from, i);
}
template <class T>
__global__ void narrow_kernel(int64_t n, const Compute<T>* carry, const T* from_state, T* out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) out[i] = convert<T>(carry[i] + read(from_state, i));
}

__global__ void lengths_kernel(int batch, int64_t steps, const int64_t* lengths, Fault* fault,
                               const char* message) {
  const int n = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (n < batch && (lengths[n] < 1 || lengths[n] > steps))
    note_fault(fault, {.index = lengths[n], .axis = -1, .size = steps, .op = message});
}

template <class T>
const T* in(const void* p) {
  return static_cast<const T*>(p);
}
template <class T>
T* out(void* p) {
  return static_cast<T*>(p);
}

void check_lengths(const Problem& p, const int64_t* lengths, Encoder* e) {
  e->launch(lengths_kernel, grid_over(p.batch, kThreads), kThreads, 0, static_cast<int>(p.batch),
            p.steps, lengths, e->fault(), "recurrent: lengths must be in [1, steps]");
}

/// Calls f with the mode as a constant; both plain networks are one.
template <class F>
void with_mode(RecurrentMode mode, F&& f) {
  if (mode == RecurrentMode::lstm) return f.template operator()<RecurrentMode::lstm>();
  if (mode == RecurrentMode::gru) return f.template operator()<RecurrentMode::gru>();
  f.template operator()<RecurrentMode::rnn_tanh>();
}

void cell(const Problem& p, DType dtype, const RecurrentCell& a, Encoder* e) {
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    const CellArgs<T> args = {in<T>(a.from_input), in<T>(a.from_state),
                              in<T>(a.c_before),   in<T>(a.h_before),
                              out<T>(a.gates),     out<T>(a.c),
                              out<T>(a.h),         out<T>(a.state),
                              a.lengths,           a.t};
    with_mode(p.mode, [&]<RecurrentMode mode>() {
      e->launch(cell_kernel<T, mode>, grid_over(p.batch * p.units, kThreads), kThreads, 0, Sizes(p),
                args);
    });
  });
}

void cell_grad(const Problem& p, DType dtype, const RecurrentCellGrad& a, Encoder* e) {
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    using C = Compute<T>;
    const CellGradArgs<T> args = {
        in<T>(a.dy), in<T>(a.from_state), out<C>(a.carry),   out<C>(a.dc),     in<T>(a.gates),
        in<T>(a.c),  in<T>(a.c_before),   in<T>(a.h_before), out<T>(a.dgates), a.lengths,
        a.t};
    with_mode(p.mode, [&]<RecurrentMode mode>() {
      e->launch(cell_grad_kernel<T, mode>, grid_over(p.batch * p.units, kThreads), kThreads, 0,
                Sizes(p), args);
    });
  });
}

void store(const Problem& p, DType dtype, const RecurrentStore& a, Encoder* e) {
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    e->launch(store_kernel<T>, grid_over(p.batch * p.outputs, kThreads), kThreads, 0, Sizes(p),
              in<T>(a.h), out<T>(a.y), out<T>(a.state), a.lengths, a.t);
  });
}

void collect(const Problem& p, DType dtype, const RecurrentCollect& a, Encoder* e) {
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    e->launch(collect_kernel<T>, grid_over(p.batch * p.outputs, kThreads), kThreads, 0, Sizes(p),
              in<T>(a.dy), in<T>(a.from_state), out<Compute<T>>(a.carry), out<T>(a.dh), a.lengths,
              a.t);
  });
}

void states_before(const Problem& p, DType dtype, const void* y, const void* h0,
                   const int64_t* lengths, void* to, Encoder* e) {
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    e->launch(states_before_kernel<T>, grid_over(p.steps * p.batch * p.outputs, kThreads), kThreads,
              0, Sizes(p), in<T>(y), in<T>(h0), lengths, out<T>(to));
  });
}

void projected(const Problem& p, DType dtype, const void* gates, const void* cells, void* to,
               Encoder* e) {
  const int64_t n = p.steps * p.batch * p.units;
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    e->launch(projected_kernel<T>, grid_over(n, kThreads), kThreads, 0, n, in<T>(gates),
              in<T>(cells), out<T>(to));
  });
}

void pack_weight(const Problem& p, DType dtype, const void* weight, int64_t cols, bool of_input,
                 void* to, Encoder* e) {
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    e->launch(pack_kernel<T>, grid_over(p.rows() * cols, kThreads), kThreads, 0,
              static_cast<int>(p.units), static_cast<int>(p.slots()), p.mode, in<T>(weight), cols,
              of_input, out<T>(to));
  });
}

void unpack_weight(const Problem& p, DType dtype, const void* slots, int64_t cols, bool of_input,
                   void* to, Encoder* e) {
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    e->launch(unpack_kernel<T>, grid_over(p.rows() * cols, kThreads), kThreads, 0,
              static_cast<int>(p.units), static_cast<int>(p.slots()), p.mode, in<T>(slots), cols,
              of_input, out<T>(to));
  });
}

void pack_bias(const Problem& p, DType dtype, const void* b_ih, const void* b_hh, void* to,
               Encoder* e) {
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    e->launch(pack_bias_kernel<T>, grid_over(p.rows(), kThreads), kThreads, 0,
              static_cast<int>(p.units), static_cast<int>(p.slots()), p.mode, in<T>(b_ih),
              in<T>(b_hh), out<T>(to));
  });
}

void widen(DType dtype, const void* from, void* to, int64_t n, Encoder* e) {
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    e->launch(widen_kernel<T>, grid_over(n, kThreads), kThreads, 0, n, in<T>(from),
              out<Compute<T>>(to));
  });
}

void narrow(DType dtype, const void* carry, const void* from_state, void* to, int64_t n,
            Encoder* e) {
  cuda_switch_float(dtype, "recurrent", [&]<class T>() {
    e->launch(narrow_kernel<T>, grid_over(n, kThreads), kThreads, 0, n, in<Compute<T>>(carry),
              in<T>(from_state), out<T>(to));
  });
}

void copy_bytes(void* to, const void* from, size_t bytes, Encoder* e) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, e->stream()));
}

bool is_packed(const Problem& p) { return p.slots() == 1; }

}  // namespace

const RecurrentPasses& recurrent_cuda_passes() {
  static const RecurrentPasses passes = {
      check_lengths, cell,          store,     cell_grad, collect, states_before, projected,
      pack_weight,   unpack_weight, pack_bias, widen,     narrow,  copy_bytes,    is_packed};
  return passes;
}

}  // namespace mica
