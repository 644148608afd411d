"""Kernels from source. They compile without a GPU, and launch on tensors without memory there."""

import os
import subprocess
import sys
import time
from pathlib import Path

import mica
import numpy as np
import pytest

SCALE = r"""
#include <cstdint>
extern "C" __global__ void scale(const float* x, float* y, float a, int64_t n) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}"""
TEMPLATE = r"""
template <class T, int kTimes> __global__ void add_to(T* x, T v, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += kTimes * v;
}"""

REASON = mica.cuda.unavailable_reason()
on_gpu = pytest.mark.skipif(bool(REASON), reason=f"no CUDA device: {REASON}")


def compiler_missing():
    try:
        mica.cuda.kernel(SCALE, "scale")
    except mica.DeviceError as e:
        return str(e)
    return ""


MISSING = compiler_missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"no CUDA compiler: {MISSING}")


@pytest.fixture
def where():
    return "cuda" if mica.cuda.is_available() else "null"


def test_the_compiler_tells_the_types_of_parameters():
    assert mica.cuda.kernel(SCALE, "scale").parameters == [
        "float const*",
        "float*",
        "float",
        "long",
    ]
    assert repr(mica.cuda.kernel(TEMPLATE, "add_to<double, 3>")) == (
        "<kernel add_to<double, 3>(double*, double, int)>"
    )
    halves = mica.cuda.kernel(
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nusing T = __half;\n"
        "__global__ void f(const T* x, __nv_bfloat16* y, const float4* z) {}",
        "f",
    )
    assert halves.parameters == ["__half const*", "__nv_bfloat16*", "float4 const*"]


def test_wrong_arguments(where):
    k = mica.cuda.kernel(SCALE, "scale")
    x, y = mica.ones(8, device=where), mica.ones(8, device=where)
    launch = k[1, 32]
    launch(x, y, 2.0, 8)
    wrong = [
        ((x, y, 2.0), mica.Error, "expected 4 arguments, got 3"),
        ((mica.ones(8), y, 2.0, 8), mica.DeviceError, "argument 0 is on the CPU"),
        ((x.double(), y, 2.0, 8), mica.DTypeError, "argument 0 must be a tensor of f32"),
        ((x, 3, 2.0, 8), mica.DTypeError, "argument 1 must be a tensor for the parameter float*"),
        ((x, y, x, 8), mica.DTypeError, "argument 2 must be a number"),
        ((x, y, 2j, 8), mica.DTypeError, "argument 2 is 0+2j, which the parameter float cannot"),
        ((x, y, 2.0, 8.5), mica.DTypeError, "argument 3 must be an integer"),
        ((x, y, 2.0, 2**63), mica.DTypeError, "which the parameter long cannot hold"),
        ((x[::2], y, 2.0, 4), mica.ShapeError, "not dense in row-major order"),
        ((x, y, "2", 8), TypeError, "argument 2 must be a tensor or a number, got str"),
    ]
    for arguments, error, text in wrong:
        with pytest.raises(error) as caught:
            launch(*arguments)
        assert text in str(caught.value) and "scale" in str(caught.value)
    for key in [(1,), (1, 2, 3, None, 5), ("a", 2), (1, (1, 2, 3, 4)), (-1, 2)]:
        with pytest.raises(TypeError):
            k[key]
    leaf = mica.ones(8, device=where, requires_grad=True)
    with pytest.raises(mica.Unsupported, match="has no gradient"):
        launch(leaf, y, 2.0, 8)


def test_errors_have_the_lines_of_the_source():
    with pytest.raises(mica.Error, match=r'f\.cu\(2\): error: identifier "foo" is undefined'):
        mica.cuda.kernel('extern "C" __global__ void f(float* x) {\n  x[0] = foo;\n}', "f")
    with pytest.raises(mica.Error, match="the source has no kernel g"):
        mica.cuda.kernel('extern "C" __global__ void f(float* x) {}', "g")
    with pytest.raises(mica.Unsupported, match="parameter 1 has the type Pair"):
        mica.cuda.kernel("struct Pair { int a, b; };\n__global__ void f(int* x, Pair p) {}", "f")
    with pytest.raises(mica.Unsupported, match="has no effect"):
        mica.cuda.kernel("__global__ void f(int n) {}", "f")


def test_a_launch_is_part_of_a_compiled_function(where):
    k = mica.cuda.kernel(SCALE, "scale")

    @mica.compile
    def step(x):
        y = mica.empty(8, device=where)
        k[1, 32](x * 2, y, 3.0, 8)
        k[1, 32](y, y, 2.0, 8)
        return y + 1

    first = step(mica.ones(8, device=where))
    second = step(mica.zeros(8, device=where))
    assert step.captures == 1 and first.shape == (8,)
    if where == "cuda":
        assert first.tolist() == [13] * 8 and second.tolist() == [1] * 8


def compiles(source, name):
    """Generated kernels take a struct or halves of their own, which a user's kernel does not."""
    try:
        mica.cuda.kernel(source, name)
    except mica.Unsupported as e:
        assert "a kernel takes numbers and pointers" in str(e)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint8"])
def test_one_line_sources(dtype):
    f = mica.cuda.elementwise("const auto t = a * x;\ny = t + b", "a, x, b", name="saxpy")
    x = mica.ones(3, 4, device="null").to(getattr(mica, dtype))
    assert f(2, x, x[:, :1]).shape == (3, 4) and f(2, x, x).dtype == x.dtype
    compiles(f.source(2, x, x), "mica_elementwise")
    compiles(f.source(2, x[:, :2], x[:, :1]), "mica_elementwise")
    r = mica.cuda.reduction("x * x", "a + b", "0", post="a / 2")
    assert r(x, dim=0).shape == (4,) and r(x, dim=-1, keepdim=True).shape == (3, 1)
    assert r(x).shape == ()
    for kernel in ("mica_parts", "mica_finish"):
        compiles(r.source(dtype), kernel)


def test_one_line_errors():
    f = mica.cuda.elementwise("y = a * x", "a, x")
    x = mica.ones(3, device="null")
    with pytest.raises(mica.Error, match="expected 2 arguments, got 1"):
        f(x)
    with pytest.raises(mica.Error, match="one argument must be a tensor"):
        f(1, 2)
    with pytest.raises(mica.DTypeError, match="a is 1\\+2j; a kernel takes no complex numbers"):
        f(1 + 2j, x)
    with pytest.raises(mica.DeviceError, match="x is on the CPU"):
        f(1, mica.ones(3))
    with pytest.raises(mica.Error, match="expected a last statement"):
        mica.cuda.elementwise("a * x", "a, x")
    with pytest.raises(mica.Error, match="expected names"):
        mica.cuda.elementwise("y = x", "x,, y")


def run(code, **environment):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_machine_code_is_kept_on_disk(tmp_path):
    kernel = "'extern \"C\" __global__ void kept(float* x) {}', 'kept'"
    code = f"import mica; print(mica.cuda.kernel({kernel}, options=OPTIONS).parameters)"

    def files(options):
        said = run(code.replace("OPTIONS", repr(options)), MICA_CACHE=str(tmp_path))
        assert said == "['float*']\n"
        return {f.name: f.stat().st_ino for f in tmp_path.glob("kernels/*.cubin")}

    first = files([])
    assert len(first) == 1
    assert files([]) == first  # read, not written again
    assert files(["-DTILE=2"]).keys() > first.keys()
    assert len(files([f"-I{tmp_path}"])) == 2  # a header there may change


@on_gpu
def test_values():
    rng = np.random.default_rng(3)
    a = rng.standard_normal(1000).astype(np.float32)
    x, y = mica.tensor(a, device="cuda"), mica.empty(1000, device="cuda")
    k = mica.cuda.kernel(SCALE, "scale")
    k[4, 256](x, y, 2.5, 1000)
    np.testing.assert_array_equal(y.cpu().numpy(), np.float32(2.5) * a)
    t = mica.cuda.kernel(TEMPLATE, "add_to<double, 3>")
    z = x.double()
    t[4, (256, 1)](z, 0.5, 1000)
    np.testing.assert_array_equal(z.cpu().numpy(), a.astype(np.float64) + 1.5)
    shared = mica.cuda.kernel(
        r"""extern "C" __global__ void turn(float* x, int n) {
          extern __shared__ float s[];
          s[threadIdx.x] = x[threadIdx.x];
          __syncthreads();
          x[threadIdx.x] = s[n - 1 - threadIdx.x];
        }""",
        "turn",
    )
    stream = mica.cuda.Stream()
    w = mica.arange(512, device="cuda").float()
    mica.cuda.synchronize()
    shared[1, 512, 100_000, stream](w, 512)
    stream.synchronize()
    assert w.tolist() == list(range(511, -1, -1))
    with pytest.raises(mica.DeviceError, match="launching kernel turn with grid"):
        shared[1, 4096](w, 512)
    assert w.sum().item() == 511 * 256


@on_gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_one_liners(dtype):
    rng = np.random.default_rng(4)
    whole = rng.integers(-8, 8, (3, 5, 7)).astype(np.float64)
    x = mica.tensor(whole, device="cuda").to(getattr(mica, dtype))
    f = mica.cuda.elementwise("y = a * x + b", "a, x, b")
    for case in (x, x.permute(2, 0, 1), x[:, :1], x[:, ::2]):
        want = 2 * case.cpu().double() + case[..., :1].cpu().double()
        got = f(2, case, case[..., :1])
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got.cpu().double().numpy(), want.numpy())
    both = mica.cuda.elementwise("y = x + 1; z = x - 1", "x", outputs="y, z")
    for got, want in zip(both(x), (whole + 1, whole - 1), strict=True):
        np.testing.assert_array_equal(got.cpu().double().numpy(), want)
    r = mica.cuda.reduction("x * y", "a + b", "0", inputs="x, y", dtype=mica.float64)
    for dim in (None, 0, 1, (0, 2), -1):
        axes = None if dim is None else dim
        np.testing.assert_array_equal(
            r(x, x, dim=dim).cpu().numpy(), (whole * whole).sum(axis=axes)
        )
    largest = mica.cuda.reduction("x", "a > b ? a : b", "-1e30", dtype=mica.float32)
    big = mica.arange(3_000_001, device="cuda").float()
    assert largest(big).item() == 3_000_000
    assert largest(big.reshape(1, -1), dim=1).tolist() == [3_000_000]


@on_gpu
def test_a_launch_costs_little():
    k = mica.cuda.kernel(SCALE, "scale")
    x, y = mica.ones(64, device="cuda"), mica.empty(64, device="cuda")
    launch, best = k[1, 64], 1.0
    for _ in range(20):
        mica.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            k[1, 64](x, y, 2.0, 64)
        best = min(best, (time.perf_counter() - start) / 200)
    print(f"{best * 1e6:.2f} µs a launch")
    assert best < 10e-6, launch


LOSE = """
import mica
k = mica.cuda.kernel('extern "C" __global__ void wild(float* x) { x[1ull << 40] = 1; }', "wild")
x = mica.ones(4, device="cuda")
k[1, 1](x)
try:
    x.cpu()
except mica.DeviceError as error:
    assert "illegal memory access" in str(error) and "wild" in str(error), error
try:
    mica.ones(4, device="cuda")
except mica.DeviceError as error:
    assert "the CUDA context was lost" in str(error), error
assert mica.ones(3).sum().item() == 3
print("ended")
"""


@on_gpu
def test_an_illegal_address_is_named():
    done = subprocess.run([sys.executable, "-c", LOSE], capture_output=True, text=True, timeout=60)
    assert done.stdout == "ended\n", done.stderr


def test_without_nvrtc_it_says_so(tmp_path):
    """A libmica_cuda whose NVRTC is nowhere to be found; the CPU goes on."""
    library = Path(mica._mica.__file__).parents[2] / "lib" / "libmica_cuda.so"
    if not library.exists():
        pytest.skip("libmica_cuda is not where a build has it")
    content = library.read_bytes()
    assert b"libnvrtc.so" in content
    (tmp_path / library.name).write_bytes(content.replace(b"libnvrtc.so", b"libabsent.s"))
    code = f"""
import mica
try:
    mica.cuda.kernel({SCALE!r}, "scale")
except mica.DeviceError as e:
    print(e)
print(mica.ones(3).sum().item())
"""
    reason, end = run(code, MICA_CUDA_LIBRARY=str(tmp_path / library.name)).splitlines()
    assert "libabsent.s" in reason and "cannot open shared object file" in reason
    assert end == "3.0"
