// A block has one sequence and walks over its steps, a thread for some of its states.
#include "mica/op/kernel.h"
#include "mica/ops/ctc/ctc.h"
#include "mica/ops/ctc/labels.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/fault.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace cuda;

constexpr int kThreads = 256;
enum In { kLogProbs, kTargets, kInputLengths, kTargetLengths };

template <class T>
struct Args {
  const T* log_probs;  // (T, N, C)
  const int64_t *targets, *input_lengths, *target_lengths;
  T *loss, *grad;
  Compute<T>* alpha;  // (N, T, 2 S + 1), then two rows of beta for each sequence
  int64_t steps, batch, classes, most_targets, blank;
  bool zero_infinity;
  Fault* fault;
  const char* message;
};

template <class C>
__device__ C log_add(C a, C b) {
  const C most = a > b ? a : b;
  const C least = a > b ? b : a;
  return isinf(most) && most < C(0) ? most : most + log1p(exp(least - most));
}

template <class T>
__global__ void ctc_kernel(Args<T> a) {
  using C = Compute<T>;
  const C never = -INFINITY;
  const int64_t n = blockIdx.x;
  const int64_t width = 2 * a.most_targets + 1;
  const int64_t steps = a.input_lengths[n];
  const int64_t targets = a.target_lengths[n];
  const CtcLabels labels{a.targets + n * a.most_targets, a.blank};
  __shared__ int wrong;
  if (threadIdx.x == 0)
    wrong = steps < 1 || steps > a.steps || targets < 0 || targets > a.most_targets;
  __syncthreads();
  for (int64_t s = threadIdx.x; !wrong && s < targets; s += kThreads) {
    const int64_t c = labels.targets[s];
    if (c < 0 || c >= a.classes || c == a.blank) atomicOr(&wrong, 2);
  }
  __syncthreads();
  const auto at = [&](int64_t t, int64_t c) { return (t * a.batch + n) * a.classes + c; };
  if (a.grad)
    for (int64_t i = threadIdx.x; i < a.steps * a.classes; i += kThreads)
      a.grad[at(i / a.classes, i % a.classes)] = convert<T>(C(0));
  if (wrong) {
    if (threadIdx.x == 0) {
      note_fault(a.fault, {.index = n, .axis = -1, .size = 0, .op = a.message});
      a.loss[n] = convert<T>(C(NAN));
    }
    return;
  }
  const int64_t states = 2 * targets + 1;
  C* alpha = a.alpha + n * a.steps * width;
  for (int64_t t = 0; t < steps; ++t) {
    const C* before = alpha + (t - 1) * width;
    for (int64_t s = threadIdx.x; s < states; s += kThreads) {
      C sum = t == 0 && s < 2 ? C(0) : never;
      if (t > 0) {
        sum = before[s];
        if (s >= 1) sum = log_add(sum, before[s - 1]);
        if (labels.skips(s)) sum = log_add(sum, before[s - 2]);
      }
      alpha[t * width + s] = sum + to_compute(a.log_probs[at(t, labels[s])]);
    }
    __syncthreads();
  }
  const C* last = alpha + (steps - 1) * width;
  const C loss = -(states > 1 ? log_add(last[states - 1], last[states - 2]) : last[0]);
  const bool zero = a.zero_infinity && isinf(loss);
  if (threadIdx.x == 0) a.loss[n] = convert<T>(zero ? C(0) : loss);
  if (!a.grad || zero) return;
  C* rows = a.alpha + (a.batch * a.steps + n * 2) * width;
  for (int64_t t = steps - 1; t >= 0; --t) {
    C* beta = rows + t % 2 * width;
    const C* next = rows + (t + 1) % 2 * width;
    for (int64_t s = threadIdx.x; s < states; s += kThreads) {
      C sum = t == steps - 1 && s >= states - 2 ? C(0) : never;
      if (t < steps - 1) {
        const auto step = [&](int64_t k) {
          return next[k] + to_compute(a.log_probs[at(t + 1, labels[k])]);
        };
        sum = step(s);
        if (s + 1 < states) sum = log_add(sum, step(s + 1));
        if (s + 2 < states && labels.skips(s + 2)) sum = log_add(sum, step(s + 2));
      }
      beta[s] = sum;
    }
    __syncthreads();
    // Each class is added up by the thread of its first state, in the order of states.
    const auto part = [&](int64_t s) { return exp(alpha[t * width + s] + beta[s] + loss); };
    for (int64_t s = threadIdx.x; s < states; s += kThreads) {
      const int64_t c = labels[s];
      bool first = true;
      for (int64_t k = s - 2; k >= 0 && first; k -= 2) first = labels[k] != c;
      if (!first) continue;
      C sum = 0;
      for (int64_t k = s; k < states; k += 2)
        if (labels[k] == c) sum += part(k);
      a.grad[at(t, c)] = convert<T>(-sum);
    }
    __syncthreads();
  }
}

Support supports(const CtcParams&, const Specs&) { return Support::yes().with_contiguous(0b1111); }

std::shared_ptr<KernelState> prepare(const CtcParams&, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  const Shape& x = s.in[kLogProbs].shape;
  const size_t number = s.in[kLogProbs].dtype == DType::f64 ? sizeof(double) : sizeof(float);
  const int64_t width = 2 * s.in[kTargets].shape[1] + 1;
  state->workspace_bytes = static_cast<size_t>(x[1] * (x[0] + 2) * width) * number;
  return state;
}

void run(const CtcParams& p, const KernelState&, const Call& call) {
  const Shape& x = call.in[kLogProbs].shape();
  cuda_switch_float(call.in[kLogProbs].dtype(), "ctc_loss", [&]<class T>() {
    const Args<T> args = {call.in[kLogProbs].as<T>(),
                          call.in[kTargets].as<int64_t>(),
                          call.in[kInputLengths].as<int64_t>(),
                          call.in[kTargetLengths].as<int64_t>(),
                          call.out[0].as<T>(),
                          p.keep ? call.out[1].as<T>() : nullptr,
                          static_cast<Compute<T>*>(call.workspace),
                          x[0],
                          x[1],
                          x[2],
                          call.in[kTargets].shape()[1],
                          p.blank,
                          p.zero_infinity,
                          call.encoder->fault(),
                          "ctc_loss: lengths must fit the inputs and targets, and targets be "
                          "classes other than the blank"};
    call.encoder->launch(ctc_kernel<T>, static_cast<unsigned>(x[1]), kThreads, 0, args);
  });
}

}  // namespace

KernelList ctc_cuda_kernels() { return {kernel<supports, prepare, run>("states")}; }

}  // namespace mica
