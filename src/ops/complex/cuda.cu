#include "mica/ops/complex/kernels.cuh"

namespace mica {
namespace {

using cuda::complex_kernel;

Support dense(const NoParams&, const Specs&) { return Support::yes().with_contiguous({0}); }

__global__ void __launch_bounds__(256) copy_words(uint64_t* out, const uint64_t* in, int64_t n) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    out[i] = in[i];
}

/// Pairs of parts are whole words of eight bytes.
void run_view(const NoParams&, const Call& c) {
  const int64_t words = c.in[0].numel() * static_cast<int64_t>(size_of(c.in[0].dtype())) / 8;
  if (words == 0) return;
  c.encoder->launch(copy_words, cuda::grid_for(words, 256, c.encoder->multiprocessors()), 256, 0,
                    c.out[0].as<uint64_t>(), c.in[0].as<const uint64_t>(), words);
}

}  // namespace

KernelList complex_cuda_kernels() { return {complex_kernel<complex_functor::Make, 2, true>()}; }
KernelList real_cuda_kernels() { return {complex_kernel<complex_functor::Real>()}; }
KernelList imag_cuda_kernels() { return {complex_kernel<complex_functor::Imag>()}; }
KernelList complex_abs_cuda_kernels() { return {complex_kernel<complex_functor::Abs>()}; }
KernelList angle_cuda_kernels() { return {complex_kernel<complex_functor::Angle>()}; }
KernelList conj_cuda_kernels() { return {complex_kernel<complex_functor::Conj>()}; }
KernelList view_as_real_cuda_kernels() { return {kernel<dense, run_view>("bytes")}; }
KernelList view_as_complex_cuda_kernels() { return {kernel<dense, run_view>("bytes")}; }

}  // namespace mica
