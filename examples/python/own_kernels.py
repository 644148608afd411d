"""Kernels of one's own: vector add, a product, a 3 x 3 mean filter as an operator, one-liners.

    python own_kernels.py --device cuda

On the CPU the same is done with kernels in C.
"""

import argparse

import mica

CUDA = r"""
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

// The mean of each pixel and its neighbours; those outside count as zeros.
extern "C" __global__ void mean_filter(const float* x, float* y, int images, int h, int w) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= h || col >= w) return;
  const float* image = x + (long long)blockIdx.z * h * w;
  float sum = 0;
  for (int r = max(row - 1, 0); r <= min(row + 1, h - 1); ++r)
    for (int c = max(col - 1, 0); c <= min(col + 1, w - 1); ++c) sum += image[r * w + c];
  y[((long long)blockIdx.z * h + row) * w + col] = sum / 9;
}
"""

C = r"""
void vector_add(const float* a, const float* b, float* c, int n) {
  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
}

void product(const float* a, const float* b, float* c, int n) {
  for (int row = 0; row < n; ++row)
    for (int k = 0; k < n; ++k)
      for (int col = 0; col < n; ++col) c[row * n + col] += a[row * n + k] * b[k * n + col];
}

void mean_filter(const float* x, float* y, int images, int h, int w) {
  for (int i = 0; i < images; ++i, x += h * w, y += h * w)
    for (int row = 0; row < h; ++row)
      for (int col = 0; col < w; ++col) {
        float sum = 0;
        for (int r = row > 0 ? row - 1 : 0; r <= row + 1 && r < h; ++r)
          for (int c = col > 0 ? col - 1 : 0; c <= col + 1 && c < w; ++c) sum += x[r * w + c];
        y[row * w + col] = sum / 9;
      }
}
"""


@mica.op
def mean_filter(x: mica.Tensor) -> mica.Tensor:
    """The mean of each pixel of images (N, C, H, W) and its eight neighbours."""
    if x.ndim != 4:
        raise mica.ShapeError(f"mean_filter: expected (N, C, H, W), got {tuple(x.shape)}")
    return x  # a rule is given specs, and gives those of the results


@mean_filter.kernel("cpu", name="c", dtypes=[mica.float32])
def _(x: mica.Tensor, y: mica.Tensor) -> None:
    n, c, h, w = x.shape
    mica.cpu.kernel(C, "mean_filter")(x, y, n * c, h, w)


@mean_filter.kernel("cuda", name="source", dtypes=[mica.float32])
def _(x: mica.Tensor, y: mica.Tensor) -> None:
    n, c, h, w = x.shape
    kernel = mica.cuda.kernel(CUDA, "mean_filter")
    kernel[(-(-w // 32), -(-h // 8), n * c), (32, 8)](x, y, n * c, h, w)


@mean_filter.gradient
def _(grad: mica.Tensor) -> mica.Tensor:
    result: mica.Tensor = mean_filter(grad)  # the weights are the same from either side
    return result


def mean_by_convolution(x: mica.Tensor) -> mica.Tensor:
    n, c, h, w = x.shape
    weight = mica.full((1, 1, 3, 3), 1 / 9, dtype=x.dtype, device=x.device)
    one_channel = mica.nn.functional.conv2d(x.reshape(n * c, 1, h, w), weight, padding=1)
    return one_channel.reshape(n, c, h, w)


def run(device: str, name: str, grid: object, *arguments: object) -> None:
    """The kernel of that name, on either device."""
    if device == "cuda":
        mica.cuda.kernel(CUDA, name)[grid](*arguments)
    else:
        mica.cpu.kernel(C, name)(*arguments)


def main(device: str) -> None:
    mica.manual_seed(1)
    n = 1000
    a, b = mica.randn(n, n, device=device), mica.randn(n, n, device=device)
    c = mica.zeros(n, n, device=device)
    run(device, "vector_add", (-(-n * n // 256), 256), a, b, c, n * n)
    print("vector add is exact:", bool((c == a + b).all()))
    c.zero_()
    run(device, "product", ((-(-n // 16), -(-n // 16)), (16, 16)), a, b, c, n)
    print(f"product of 1000 x 1000: off by at most {(c - a @ b).abs().max().item():.2g}")

    x = mica.rand(2, 3, 17, 19, device=device)
    took = mica.testing.check_op(mean_filter, x, reference=mean_by_convolution)
    print("mean filter: checked, kernels", took)
    step = mica.compile(lambda x: mica.relu(mean_filter(x) - 0.5))
    print("compiled:", step(x).mean().item())

    if device == "cuda":
        saxpy = mica.cuda.elementwise("y = a * x + b", "a, x, b")
        norm = mica.cuda.reduction("x * x", "a + b", "0", post="sqrt(a)")
        y = saxpy(2.0, a, b)
        print("one-liners:", norm(y).item(), "expected", y.square().sum().sqrt().item())


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
try:
    main(parser.parse_args().device)
except mica.Unsupported as e:  # no compiler on this machine
    print(e)
