// A program that needs CUDA: it compiles a kernel, for which libmica_cuda and NVRTC do, and runs it
// where there is a GPU.
#include <mica/kernels.h>
#include <mica/mica.h>

#include <cstdio>

int main() try {
  const mica::cuda::Kernel twice(R"(extern "C" __global__ void twice(float* x, int n) {
      if (threadIdx.x < n) x[threadIdx.x] *= 2;
    })",
                                 "twice");
  if (const std::string reason = mica::cuda_unavailable_reason(); !reason.empty()) {
    std::printf("compiled for CUDA; nothing runs: %s\n", reason.c_str());
    return 0;
  }
  const mica::Tensor x = mica::ones({8}, {.device = mica::Device::cuda()});
  twice({{1}, {8}}, x, x.numel());
  const double sum = mica::matmul(x, x).item();
  std::printf("on %s: %g\n", to_string(x.device()).c_str(), sum);
  return sum == 32 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
