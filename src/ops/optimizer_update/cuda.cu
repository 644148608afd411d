#include "mica/ops/optimizer_update/cuda_step.cuh"

namespace mica {
namespace {

using namespace mica::update;

constexpr int kThreads = 256;

// The tensors of a launch are kernel parameters: some KB of them for a few tensors, close to the
// most there may be, 32,764 bytes, for many.
constexpr int kFew = 96;
constexpr size_t kMostBytes = 32764 - 256;

template <class T, int kKept>
inline constexpr int kMany =
    static_cast<int>(kMostBytes / (sizeof(Entry<T, kKept>) + sizeof(unsigned)));

template <class T, int kKept, int kMost>
struct Group {
  int tensors = 0;
  unsigned end[kMost];  ///< one past the last block of each tensor
  Entry<T, kKept> entries[kMost];
};

template <class Step, class T, int kMost, class Params>
__global__ void __launch_bounds__(kThreads)
    take_step(const __grid_constant__ Group<T, kKept<Step, T>, kMost> group, Scalars scalars,
              const __grid_constant__ Params params) {
  __shared__ Shared<Step, Compute<T>> shared;
  const int k = owner_of(blockIdx.x, group.end, group.tensors);
  wait_for_inputs();
  const Entry<T, kKept<Step, T>> e = group.entries[k];
  const auto now = scalars.load<Step::kNumbers>();
  step_chunk<Step, T, kThreads>(
      e, blockIdx.x - (k == 0 ? 0 : group.end[k - 1]), [&]() -> const auto& {
        if (threadIdx.x == 0) shared = {now.template factors<Step, Compute<T>>(params), now.skips};
        __syncthreads();
        return shared;
      });
}

template <class O>
Support supports(const typename O::Params& p, const Specs& s) {
  for (size_t i = kFirst; i < s.in.size(); ++i)
    if (!s.in[i].lies_like(s.in[kFirst + (i - kFirst) % static_cast<size_t>(p.count)]))
      return Support::no("a gradient is laid out otherwise than its parameter");
  return Support::yes();
}

/// The parameters of type T; an empty grid launches nothing.
template <class Step, class T, int kMost, class Params>
void run_as(const Params& p, const Call& c, DType dtype) {
  const auto count = static_cast<size_t>(p.count);
  size_t k = 0;
  while (k < count) {
    Group<T, kKept<Step, T>, kMost> group;
    unsigned blocks = 0;
    for (; k < count && group.tensors < kMost; ++k) {
      const Arg& param = c.in[kFirst + k];
      if (param.numel() == 0 || param.dtype() != dtype) continue;
      group.entries[group.tensors] = entry_of<T, kKept<Step, T>>(c, count, k);
      blocks += static_cast<unsigned>(ceil_div(param.numel(), kChunk<T, kThreads>));
      group.end[group.tensors++] = blocks;
    }
    const ProgrammaticLaunch overlap;
    c.encoder->launch(take_step<Step, T, kMost, Params>, blocks, kThreads, 0, group, Scalars(c), p);
  }
}

template <class O>
void run(const typename O::Params& p, const Call& c) {
  O::visit(p, [&]<class Step>() {
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
      cuda_switch_float(dtype, O::kName, [&]<class T>() {
        p.count <= kFew ? run_as<Step, T, kFew>(p, c, dtype)
                        : run_as<Step, T, kMany<T, kKept<Step, T>>>(p, c, dtype);
      });
  });
}

template <class O>
KernelList kernels() {
  return {kernel<supports<O>, run<O>>("multi_tensor")};
}

}  // namespace

KernelList sgd_update_cuda_kernels() { return kernels<update::Sgd>(); }
KernelList adam_update_cuda_kernels() { return kernels<update::Adam>(); }
KernelList rmsprop_update_cuda_kernels() { return kernels<update::Rmsprop>(); }
KernelList adagrad_update_cuda_kernels() { return kernels<update::Adagrad>(); }
KernelList adadelta_update_cuda_kernels() { return kernels<update::Adadelta>(); }
KernelList adamax_update_cuda_kernels() { return kernels<update::Adamax>(); }
KernelList nadam_update_cuda_kernels() { return kernels<update::Nadam>(); }
KernelList radam_update_cuda_kernels() { return kernels<update::Radam>(); }
KernelList lion_update_cuda_kernels() { return kernels<update::Lion>(); }
KernelList ema_update_cuda_kernels() { return kernels<update::Ema>(); }
KernelList clip_by_norm_cuda_kernels() { return kernels<update::ClipNorm>(); }
KernelList clip_by_value_cuda_kernels() { return kernels<update::ClipValue>(); }
KernelList scale_tensors_cuda_kernels() { return kernels<update::Scale>(); }

}  // namespace mica
