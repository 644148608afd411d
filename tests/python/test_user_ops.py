"""Operators from Python, their tests, kernels in C source, operators from libraries."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mica
import numpy as np
import pytest

C = r"""
#include <math.h>
void softsign(const float *restrict x, float *restrict y, float a, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] / (a + fabsf(x[i]));
}
void overrun(const float *x, float *y, long n) {
  for (long i = 0; i <= n; ++i) y[i] = 1;
}
"""
CUDA = r"""
extern "C" __global__ void softsign(const float* x, float* y, float a, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / (a + fabsf(x[i]));
}"""


def reference(x, a=1.0):
    return x / (a + x.abs())


try:
    mica.cpu.kernel(C, "softsign")
    NO_COMPILER = ""
except mica.Unsupported as error:
    NO_COMPILER = str(error)
needs_compiler = pytest.mark.skipif(bool(NO_COMPILER), reason=NO_COMPILER)


@mica.op(dtypes=[mica.float64, mica.float32, mica.float16])
def softsign(x, a: float = 1.0):
    """x / (a + |x|) of each element."""
    if not a > 0:
        raise mica.Error(f"softsign: a must be positive, got {a}")
    return x


if not NO_COMPILER:
    compiled_c = mica.cpu.kernel(C, "softsign")

    @softsign.kernel("cpu", name="c", dtypes=[mica.float32])
    def _(x, y, a):
        compiled_c(x, y, a, x.numel())


@softsign.kernel("cpu", name="composed")
def _(x, y, a):
    y.copy_(reference(x, a))


if mica.cuda.is_available():
    compiled_cuda = mica.cuda.kernel(CUDA, "softsign")

    @softsign.kernel("cuda", name="source", dtypes=[mica.float32])
    def _(y, x, a):
        compiled_cuda[-(-x.numel() // 256), 256](x, y, a, x.numel())


@softsign.gradient
def _(grad, x, a):
    return grad * a / (a + x.abs()).square()


def test_an_operator_from_python(device):
    x = mica.linspace(-3, 3, 30, device=device)
    mica.testing.check_op(softsign, x, reference=reference)
    mica.testing.check_op(softsign, x.reshape(1, 30, 1, 1), 2.0, reference=reference)
    if device == "cpu":
        took = mica.testing.check_op(softsign, x.double(), 0.5, reference=reference)
        assert took == ["composed"]
    assert "softsign" in repr(softsign) and softsign.__doc__.startswith("x /")


def test_its_calls_are_checked():
    x = mica.ones(3)
    with pytest.raises(mica.Error, match="a must be positive, got 0"):
        softsign(x, 0)
    with pytest.raises(mica.DTypeError, match="softsign: expected one of f64, f32, f16, got i64"):
        softsign(x.long())
    with pytest.raises(TypeError, match="x must be a tensor, got list"):
        softsign([1.0])
    with pytest.raises(TypeError, match="unexpected argument 'b'"):
        softsign(x, b=1)
    with pytest.raises(TypeError, match="the argument 'x' is missing"):
        softsign(a=1)
    with pytest.raises(mica.Unsupported, match="an operator named 'softsign' is there already"):
        mica.op(name="softsign")(lambda x: x)
    with pytest.raises(ValueError, match="its kernel takes 'z'"):
        softsign.kernel("cpu", name="other")(lambda z: None)
    with pytest.raises(mica.Unsupported, match="there is a kernel 'composed' already"):
        softsign.kernel("cpu", name="composed")(lambda x, y: None)


def test_it_is_like_any_other(capfd):
    mica.set_verbose_dispatch(True)
    softsign(mica.ones(5), 3.0)
    mica.set_verbose_dispatch(False)
    assert "softsign(f32[5]) {values = (3.0,)} on cpu" in capfd.readouterr().err
    step = mica.compile(lambda x: mica.relu(softsign(x * 2)))
    assert step(mica.ones(4)).tolist() == pytest.approx([2 / 3] * 4)
    with mica.autocast("cpu", dtype=mica.float16):
        assert softsign(mica.ones(2)).dtype == mica.float32


@needs_compiler
def test_a_profile_has_its_calls_and_launches_that_are_no_operators():
    x, y = mica.ones(5), mica.zeros(5)
    with mica.profiler.profile() as p:
        softsign(x, 3.0)
        compiled_c(x, y, 3.0, 5)
    kinds = [(k["op"], k["kernel"]) for k in p.json()["kinds"]]
    assert kinds == [("softsign", "c"), ("kernel softsign", "source")]
    assert "kernel softsign" in p.table()


def test_an_operator_with_two_outputs_that_writes():
    @mica.op(outputs="low, high", mutates=["count"], precision="low")
    def limits(x, count, keep: bool = False):
        return (x.shape[:1] if keep else (), x.dtype), ((), mica.float64)

    @limits.kernel("cpu")
    def _(x, count, low, high, keep):
        low.copy_(x.amin(dim=tuple(range(1, x.ndim))) if keep else x.min())
        high.copy_(x.max())
        count.add_(1)

    @limits.gradient
    def _(grad_low, x, low):
        return grad_low.reshape(-1, 1) * (x == low.reshape(-1, 1)), None

    count = mica.zeros(1)
    x = mica.tensor([[1.0, 5.0], [3.0, 2.0]], requires_grad=True)
    low, high = limits(x, count, True)
    assert low.tolist() == [1, 2] and high.item() == 5 and high.dtype == mica.float64
    (low * mica.tensor([10.0, 20.0])).sum().backward()
    assert x.grad.tolist() == [[10, 0], [0, 20]] and count.item() == 1
    step = mica.compile(lambda x: limits(x, count)[1] * 2)
    assert [step(x.detach()).item() for _ in range(3)] == [10, 10, 10] and count.item() == 4
    with mica.autocast("cpu", dtype=mica.bfloat16):
        assert limits(x.detach(), mica.zeros(1))[0].dtype == mica.float32  # it writes: left alone


def test_autocast_and_formats_if_it_says_so():
    seen = []

    @mica.op(precision="low", images=["x", "y"])
    def through(x):
        return x

    @through.kernel("cpu")
    def _(x, y):
        seen.append(x.is_contiguous(memory_format=mica.channels_last))
        y.copy_(x)

    x = mica.randn(2, 3, 4, 5).contiguous(memory_format=mica.channels_last)
    y = through(x)
    assert seen == [True] and y.is_contiguous(memory_format=mica.channels_last)
    assert (y == x).all().item()
    with mica.autocast("cpu", dtype=mica.bfloat16):
        assert through(x).dtype == mica.bfloat16


@needs_compiler
def test_an_overrun_is_found():
    overrun = mica.cpu.kernel(C, "overrun")

    @mica.op
    def one_more(x):
        return x

    @one_more.kernel("cpu", name="careless")
    def _(x, y):
        overrun(x, y, x.numel())

    with pytest.raises(AssertionError, match="kernel careless: writes behind output 0"):
        mica.testing.check_op(one_more, mica.ones(16))

    @mica.op(outputs="", mutates=["y"])
    def one_more_in_place(x, y):
        return None

    @one_more_in_place.kernel("cpu", name="careless")
    def _(x, y):
        overrun(x, y, y.numel())

    with pytest.raises(AssertionError, match="kernel careless: writes behind input 1"):
        mica.testing.check_op(one_more_in_place, mica.ones(16), mica.ones(16))


def test_faults_are_found():
    def make(name, run, gradient=None):
        @mica.op(name=name)
        def made(x):
            return x

        made.kernel("cpu", name="only")(run)
        if gradient:
            made.gradient(gradient)
        return made

    wrong = make("wrong_values", lambda x, y: y.copy_(x * 2))
    with pytest.raises(AssertionError, match="differs most at element 2"):
        mica.testing.check_op(wrong, mica.tensor([1.0, 2, 3]), reference=lambda x: x)
    writes = make("writes_input", lambda x, y: (y.copy_(x), x.fill_(0)))
    with pytest.raises(AssertionError, match="writes to input 0"):
        mica.testing.check_op(writes, mica.ones(3))
    forgets = make("forgets", lambda x, y: y[:1].copy_(x[:1]))
    with pytest.raises(AssertionError, match="is NaN at element 1"):
        mica.testing.check_op(forgets, mica.ones(3), reference=lambda x: x)
    slope = make("wrong_slope", lambda x, y: y.copy_(x * x), lambda grad, x: grad * x)
    with pytest.raises(AssertionError, match="wrong_slope, kernel only, gradient"):
        mica.testing.check_op(slope, mica.tensor([1.0, 2.0]), reference=lambda x: x * x)
    none = make("without_gradient", lambda x, y: y.copy_(x))
    mica.testing.check_op(none, mica.ones(3))
    with pytest.raises(mica.Unsupported, match=r"op\.gradient was not given one"):
        none(mica.ones(3, requires_grad=True))
    curve = make("wrong_curve", lambda x, y: y.copy_(x * x), lambda grad, x: grad * 2 * x.detach())
    with pytest.raises(AssertionError, match="wrong_curve, kernel only, second order"):
        mica.testing.check_op(curve, mica.tensor([1.0, 2.0]), reference=lambda x: x * x)
    elsewhere = mica.op(name="elsewhere")(
        lambda x: x if str(x.device) == "cpu" else (x.shape, mica.float16)
    )
    elsewhere.kernel("cpu", name="only")(lambda x, y: y.copy_(x))
    with pytest.raises(AssertionError, match=r"elsewhere, on the null device.*float16"):
        mica.testing.check_op(elsewhere, mica.ones(3))

    product = mica.op(name="wrong_alone")(lambda a, b: a)
    product.kernel("cpu", name="only")(lambda a, b, y: y.copy_(a * b))
    product.gradient(lambda grad, a, b, needs: (grad * b, grad * (a if needs["a"] else 1)))
    with pytest.raises(
        AssertionError, match="wrong_alone, kernel only, gradient of argument 1 alone"
    ):
        mica.testing.check_op(product, mica.tensor([2.0, 3.0]), mica.tensor([4.0, 5.0]))

    bare = mica.op(name="without_kernel")(lambda x: x)
    with pytest.raises(AssertionError, match="without_kernel has no kernel on cpu"):
        mica.testing.check_op(bare, mica.ones(3))


@needs_compiler
def test_faults_of_some_layouts_dtypes_and_graphs_are_found():
    @mica.op(images=["x"])
    def as_if_dense(x):
        return x

    @as_if_dense.kernel("cpu", name="careless")
    def _(x, y):
        mica.cpu.kernel(C, "softsign", strided=True)(x, y, 1.0, x.numel())

    with pytest.raises(AssertionError, match=r"strided inputs, output 0: is NaN"):
        mica.testing.check_op(as_if_dense, mica.ones(1, 2, 3, 4), reference=reference)

    def square(name, gradient):
        @mica.op(name=name)
        def made(x):
            return x

        made.kernel("cpu", name="only")(lambda x, y: y.copy_(x * x))
        made.gradient(gradient)
        return made

    single = square(
        "wrong_in_single", lambda grad, x: grad * x * (2 if x.dtype == mica.float64 else 1)
    )
    with pytest.raises(AssertionError, match="only, dense inputs, gradient of argument 0"):
        mica.testing.check_op(single, mica.tensor([1.0, 2.0]))
    calls = []
    counts = square("counts", lambda grad, x: (calls.append(0), grad * x * len(calls))[1])
    with pytest.raises(AssertionError, match="counts, compiled, gradient 0"):
        mica.testing.check_op(counts, mica.tensor([1.0, 2.0]))


def test_it_is_in_mica_ops(tmp_path):
    (tmp_path / "own.py").write_text(
        "import mica\n\n@mica.op(precision='low')\ndef listed(x, bias=None):\n    return x\n\n"
        "@listed.kernel('cpu', name='plain')\ndef _(x, y):\n    y.copy_(x)\n"
    )

    def listed(*words):
        command = [sys.executable, "-m", "mica", "ops", "--load", tmp_path / "own.py", *words]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (own,) = [op for op in json.loads(listed("--json")) if op["name"] == "listed"]
    assert own["kernels"]["cpu"] == ["plain"] and own["inputs"] == ["x", "bias?"]
    assert own["precision"] == "low" and own["gradient"] == "op.gradient was not given one"
    assert re.search(r"^listed +plain .* low +no: op\.gradient", listed(), re.MULTILINE)


@needs_compiler
def test_kernels_in_c():
    k = mica.cpu.kernel(C, "softsign")
    assert repr(k) == "<kernel softsign(float const*, float*, float, long)>"
    x, y = mica.tensor([1.0, -3.0]), mica.zeros(2)
    k(x, y, 1.0, 2)
    assert y.tolist() == [0.5, -0.75]
    with pytest.raises(mica.DTypeError, match="argument 0 must be a tensor of f32"):
        k(x.double(), y, 1.0, 2)
    with pytest.raises(mica.DTypeError, match="argument 3 must be an integer"):
        k(x, y, 1.0, 2.5)
    with pytest.raises(mica.Error, match=r"f\.c:2:\d+: error"):
        mica.cpu.kernel("void f(float* x) {\n  x[0] = foo;\n}", "f")
    with pytest.raises(mica.Error, match="a kernel returns void"):
        mica.cpu.kernel("int f(float* x) { return 0; }", "f")
    template = "template <class T> void fill(T* x, T v, long n) { while (n-- > 0) *x++ = v; }"
    mica.cpu.kernel(template, "fill<double>")(z := mica.zeros(3, dtype=mica.float64), 2, 3)
    assert z.tolist() == [2, 2, 2]
    step = mica.compile(lambda x: step_of(k, x))
    for v in (1.0, 3.0):
        assert step(mica.full((2,), v)).tolist() == [v / (1 + v) * 2] * 2


def step_of(k, x):
    y = mica.empty_like(x)
    k(x, y, 1.0, 2)
    return y * 2


def test_without_a_compiler_it_says_so(tmp_path):
    code = "import mica\ntry:\n  mica.cpu.kernel('void f(int* x) {}', 'f')\n"
    code += "except mica.Unsupported as e:\n  print(e)"
    env = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    env.pop("CXX", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert "neither c++ nor g++ nor clang++ is on PATH" in done.stdout, done.stderr


def test_without_cuda_it_says_so_and_the_cpu_goes_on():
    code = """
import mica
for make in (
    lambda: mica.cuda.kernel("__global__ void f(float* x) {}", "f"),
    lambda: mica.ones(2, device="cuda"),
):
    try:
        make()
    except mica.DeviceError as e:
        print(e)
x = mica.ones(2, requires_grad=True)
(x * 3).sum().backward()
print(mica.cuda.is_available(), x.grad.tolist())
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    env["MICA_CUDA_LIBRARY"] = "/nonexistent/libmica_cuda.so"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    *reasons, end = done.stdout.splitlines()
    assert end == "False [3.0, 3.0]" and len(reasons) == 2, done.stderr
    for reason in reasons:
        assert reason.startswith("cuda: ") and "/nonexistent/libmica_cuda.so" in reason


@needs_compiler
def test_what_is_compiled_is_kept_until_something_changes(tmp_path):
    """Headers, the compiler's version and the words of CXX."""
    (tmp_path / "cxx").write_text(
        "#!/bin/sh\n"
        f'[ "$2" = --version ] && exec cat {tmp_path}/version\n'
        f'echo "$*" >> {tmp_path}/log\n'
        f'shift; exec c++ -DVERSION=$(cat {tmp_path}/version) "$@"\n'
    )
    (tmp_path / "cxx").chmod(0o755)
    code = f"""
import mica
x = mica.zeros(2)
mica.cpu.kernel("void f(float* x) {{ x[0] = VERSION; }}", "f")(x)
mica.cpu.kernel('#include "value.h"\\nvoid g(float* x) {{ x[1] = VALUE; }}', "g",
                options=["-I{tmp_path}"])(x)
print(x.tolist())
"""
    cxx = f"{tmp_path}/cxx word"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    env |= {"CXX": cxx, "MICA_CACHE": str(tmp_path / "cache")}

    def run(version, value):
        (tmp_path / "version").write_text(str(version))
        (tmp_path / "value.h").write_text(f"#define VALUE {value}")
        (tmp_path / "log").write_text("")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
        compiled = (tmp_path / "log").read_text().splitlines()
        assert all(line.startswith("word -std=") for line in compiled), done.stderr
        return done.stdout, len(compiled)

    assert run(1, 1) == ("[1.0, 1.0]\n", 2)
    assert run(1, 2) == ("[1.0, 2.0]\n", 1)
    assert run(2, 2) == ("[2.0, 2.0]\n", 2)


def test_libraries_that_are_none(tmp_path):
    with pytest.raises(mica.IoError, match="No such file"):
        mica.load_ops(tmp_path / "none.so")
    (tmp_path / "text.so").write_text("nothing")
    with pytest.raises(mica.IoError, match=r"text\.so"):
        mica.load_ops(tmp_path / "text.so")


def build_library(source, tmp_path):
    (tmp_path / "lib.c").write_text(source)
    done = subprocess.run(
        ["cc", "-shared", "-fPIC", "lib.c", "-o", "lib.so"], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return tmp_path / "lib.so"


@needs_compiler
def test_libraries_for_another_mica(tmp_path):
    with pytest.raises(mica.IoError, match="registers no operators"):
        mica.load_ops(build_library("int nothing;", tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    source = 'const char* mica_ops_abi() { return "mica 9.9"; } void mica_register_ops(void* r) {}'
    with pytest.raises(mica.Unsupported, match=r"was built for mica 9\.9; this is mica 0\."):
        mica.load_ops(build_library(source, other))


PLUGIN = Path(mica.__file__).parents[2] / "bin" / "mish.so"


@pytest.mark.skipif(not PLUGIN.exists(), reason="the example's plugin is not built")
def test_a_library_of_operators(device):
    loaded = mica.load_ops(PLUGIN)
    assert loaded.ops == ["mish_beta"] and mica.load_ops(PLUGIN).ops == ["mish_beta"]
    mish = loaded.mish_beta
    assert "tanh(softplus" in mish.__doc__
    x = mica.linspace(-3, 3, 30, device=device)
    mica.testing.check_op(
        mish,
        x,
        2.0,
        reference=lambda x, beta: x * mica.tanh(mica.log1p(mica.exp(beta * x)) / beta),
    )
    with pytest.raises(mica.Error, match="beta must be positive"):
        mish(x, beta=-1)
    tool = PLUGIN.parent / "mica"
    if tool.exists():
        shown = subprocess.run([tool, "ops", "--load", PLUGIN], capture_output=True, text=True)
        assert "mish_beta" in shown.stdout, shown.stderr


def test_the_rest_of_a_program_goes_on():
    assert np.allclose(softsign(mica.ones(2)).numpy(), 0.5)
