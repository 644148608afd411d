// Kernels of one's own on the GPU, from CUDA source, or else on the CPU, from C: vector add, a
// product of 1000 × 1000, and a 3 × 3 mean filter in a compiled function.
#include <mica/kernels.h>
#include <mica/mica.h>

#include <cstdio>
#include <functional>
#include <string>

using namespace mica;

namespace {

constexpr const char* kCuda = R"(
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void product(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n || col >= n) return;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
  c[row * n + col] = sum;
}
extern "C" __global__ void mean_filter(const float* x, float* y, int h, int w) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= h || col >= w) return;
  float sum = 0;
  for (int r = max(row - 1, 0); r <= min(row + 1, h - 1); ++r)
    for (int c = max(col - 1, 0); c <= min(col + 1, w - 1); ++c) sum += x[r * w + c];
  y[row * w + col] = sum / 9;
})";

constexpr const char* kC = R"(
void vector_add(const float* a, const float* b, float* c, int n) {
  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
void product(const float* a, const float* b, float* c, int n) {
  for (int row = 0; row < n; ++row)
    for (int k = 0; k < n; ++k)
      for (int col = 0; col < n; ++col) c[row * n + col] += a[row * n + k] * b[k * n + col];
}
void mean_filter(const float* x, float* y, int h, int w) {
  for (int row = 0; row < h; ++row)
    for (int col = 0; col < w; ++col) {
      float sum = 0;
      for (int r = row > 0 ? row - 1 : 0; r <= row + 1 && r < h; ++r)
        for (int c = col > 0 ? col - 1 : 0; c <= col + 1 && c < w; ++c) sum += x[r * w + c];
      y[row * w + col] = sum / 9;
    }
})";

/// A kernel of that name on either device; on CUDA a thread for each of (width, height) elements.
template <class... A>
void run(const char* name, int64_t width, int64_t height, const Tensor& first, const A&... rest) {
  if (first.device().is_cpu()) {
    cpu::Kernel(kC, name)(first, rest...);
    return;
  }
  const uint32_t tall = height > 1 ? 8 : 1;
  const uint32_t wide = 256 / tall;
  const auto blocks = [](int64_t n, uint32_t threads) {
    return static_cast<uint32_t>((n + threads - 1) / threads);
  };
  const cuda::Kernel kernel(kCuda, name);
  kernel({{blocks(width, wide), blocks(height, tall)}, {wide, tall}}, first, rest...);
}

Tensor mean_filter(const Tensor& x) {
  Tensor y = zeros_like(x);
  run("mean_filter", x.size(1), x.size(0), x, y, x.size(0), x.size(1));
  return y;
}

}  // namespace

int main() try {
  const Device device = cuda_available() ? Device::cuda(0) : Device::cpu();
  constexpr int64_t kSide = 1000;
  const Tensor a = normal({kSide, kSide}, 0, 1, {.device = device});
  const Tensor b = normal({kSide, kSide}, 0, 1, {.device = device});
  Tensor c = zeros_like(a);
  run("vector_add", kSide * kSide, 1, a, b, c, kSide * kSide);
  const bool added = c.allclose(a + b, 0, 0);
  c.zero_();
  run("product", kSide, kSide, a, b, c, kSide);
  const double off = (c - matmul(a, b)).abs().max().item();
  std::printf("vector add: %s; product of 1000 x 1000: off by at most %.2g\n",
              added ? "exact" : "wrong", off);

  // A launch is part of a compiled function like any operator.
  const auto smooth = compile([](const Tensor& x) { return mean_filter(mean_filter(x)) * 2; });
  const Tensor eager = mean_filter(mean_filter(a)) * 2;
  const bool same = smooth(a).allclose(eager);
  std::printf("the mean filter, compiled: %s\n", same ? "as eagerly" : "different");
  return added && off < 1e-3 && same ? 0 : 1;
} catch (const Unsupported& e) {  // no compiler on this machine
  std::printf("%s\n", e.what());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "own_kernels: %s\n", e.what());
  return 1;
}
