"""The same launches one by one, as a CUDA graph made by hand, and as one made by mica.compile.

By hand means CUDA's own functions on mica's stream, and memory that must stay where it is; compile
sees to that, and to whatever else the function does.
"""

import ctypes
from collections.abc import Callable

import mica

SOURCE = r"""
extern "C" __global__ void step(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 0.5f * y[i] + x[i];
}"""
N, STEPS = 4096, 50


def launches(x: mica.Tensor, y: mica.Tensor) -> None:
    kernel = mica.cuda.kernel(SOURCE, "step")
    for _ in range(STEPS):
        kernel[N // 256, 256](x, y, N)


def by_hand(x: mica.Tensor, y: mica.Tensor) -> Callable[[], None]:
    """Stream capture, instantiation, and a function that launches the graph."""
    cuda = ctypes.CDLL("libcuda.so.1")
    stream = mica.cuda.Stream()
    handle = ctypes.c_void_p(stream.cuda_stream)
    graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
    mica.cuda.synchronize()
    relaxed = 2
    assert cuda.cuStreamBeginCapture_v2(handle, relaxed) == 0
    with mica.cuda.stream(stream):
        launches(x, y)
    assert cuda.cuStreamEndCapture(handle, ctypes.byref(graph)) == 0
    assert cuda.cuGraphInstantiateWithFlags(ctypes.byref(ready), graph, ctypes.c_ulonglong(0)) == 0

    def run() -> None:
        current = ctypes.c_void_p(mica.cuda.current_stream().cuda_stream)
        assert cuda.cuGraphLaunch(ready, current) == 0

    return run


def milliseconds(run: Callable[[], object]) -> float:
    run()
    begin, end = mica.cuda.Event(), mica.cuda.Event()
    begin.record(mica.cuda.current_stream())
    for _ in range(20):
        run()
    end.record(mica.cuda.current_stream())
    return begin.elapsed_time(end) / 20


def main() -> None:
    x = mica.linspace(0, 1, N, device="cuda")
    y = mica.zeros(N, device="cuda")
    launches(x, y)  # compiles and loads the kernel
    compiled = mica.compile(lambda: launches(x, y))
    ways: dict[str, Callable[[], object]] = {
        "one by one": lambda: launches(x, y),
        "graph by hand": by_hand(x, y),
        "mica.compile": lambda: compiled(),
    }
    results = {}
    for name, run in ways.items():
        y.zero_()
        run()
        results[name] = y.clone()
        print(f"{name:14} {1000 * milliseconds(run):8.1f} µs for {STEPS} launches")
    first = results["one by one"]
    assert all(bool((r == first).all()) for r in results.values())


if mica.cuda.is_available():
    main()
else:
    print(f"no CUDA device: {mica.cuda.unavailable_reason()}")
