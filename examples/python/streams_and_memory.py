"""Copies that overlap with kernels on streams, and unified memory beside explicit copies."""

import ctypes
import time
from collections.abc import Callable

import mica

SOURCE = r"""
// Enough arithmetic for each value to take about as long as its copy.
extern "C" __global__ void work(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  for (int k = 0; k < 2000; ++k) v = v * 0.999f + 0.001f;
  x[i] = v;
}"""
PIECES, N = 8, 1 << 22


def milliseconds(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        mica.cuda.synchronize()
        start = time.perf_counter()
        run()
        mica.cuda.synchronize()
        best = min(best, 1000 * (time.perf_counter() - start))
    return best


def streams() -> None:
    kernel = mica.cuda.kernel(SOURCE, "work")
    host = [mica.ones(N).pin_memory() for _ in range(PIECES)]

    def piece(x: mica.Tensor) -> None:
        on_gpu = x.to("cuda", non_blocking=True)
        kernel[N // 256, 256](on_gpu, N)

    def one_stream() -> None:
        for x in host:
            piece(x)

    own = [mica.cuda.Stream() for _ in range(3)]

    def several_streams() -> None:
        for i, x in enumerate(host):
            with mica.cuda.stream(own[i % len(own)]):
                piece(x)

    one, several = milliseconds(one_stream), milliseconds(several_streams)
    print(f"{PIECES} copies and kernels: {one:.2f} ms on one stream, {several:.2f} ms on three")

    # An event is a point in a stream, for another to wait for.
    x, done = mica.zeros(N, device="cuda"), mica.cuda.Event()
    with mica.cuda.stream(own[0]):
        kernel[N // 256, 256](x, N)
        done.record(own[0])
    own[1].wait_event(done)
    with mica.cuda.stream(own[1]):
        y = x * 2
        mica.cuda.record_stream(x, own[1])
    own[1].synchronize()
    assert y.min().item() > 0


class Unified:
    """Memory that CPU and GPU both reach, whose pages move to whoever touches them."""

    def __init__(self, n: int) -> None:
        self.pointer, attach_global = ctypes.c_uint64(), 1
        cuda = ctypes.CDLL("libcuda.so.1")
        code = cuda.cuMemAllocManaged(
            ctypes.byref(self.pointer), ctypes.c_size_t(4 * n), attach_global
        )
        assert code == 0, f"cuMemAllocManaged: error {code}"
        self.values = (ctypes.c_float * n).from_address(self.pointer.value)
        self.__cuda_array_interface__ = {
            "shape": (n,), "typestr": "<f4", "data": (self.pointer.value, False), "version": 3,
            "strides": None,
        }  # fmt: skip


def memory() -> None:
    kernel = mica.cuda.kernel(SOURCE, "work")
    here = mica.ones(N)

    def explicit() -> float:
        there = here.to("cuda")
        kernel[N // 256, 256](there, N)
        return float(there.cpu()[N - 1].item())

    unified = Unified(N)
    there = mica.from_dlpack(unified)

    def shared() -> float:
        ctypes.memset(unified.pointer.value, 0, 4 * N)  # the CPU writes: pages move to it
        kernel[N // 256, 256](there, N)
        mica.cuda.synchronize()
        return sum(unified.values[::4096])  # and the CPU reads what the GPU wrote

    print(f"explicit copies {milliseconds(explicit):.2f} ms, unified {milliseconds(shared):.2f} ms")
    assert explicit() > 0.99 and shared() > 0


if mica.cuda.is_available():
    streams()
    memory()
else:
    print(f"no CUDA device: {mica.cuda.unavailable_reason()}")
