"""The C interface: through ctypes, and the list of its symbols."""

import ctypes
import math
import re
import shutil
import subprocess
from pathlib import Path

import mica
import pytest
from mica import _mica

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "src" / "c.h"
SYMBOLS = Path(__file__).parent / "c_symbols.txt"


def library_path():
    extension = Path(_mica.__file__)
    for folder in (extension.parent, extension.parents[2] / "lib"):
        for name in ("libmica.so",):
            if (folder / name).exists():
                return folder / name
    pytest.skip("libmica.so is not beside the package")
    return None


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class Value(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.c_void_p),
        ("boolean", ctypes.c_bool),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
        ("integers", ctypes.POINTER(ctypes.c_int64)),
        ("text", ctypes.c_char_p),
        ("device", Device),
        ("numbers", ctypes.POINTER(ctypes.c_double)),
        ("list", ctypes.c_void_p),
    ]


class Argument(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("count", ctypes.c_size_t),
        ("value", Value),
    ]


TENSOR, INT, FLOAT, TEXT = 1, 4, 5, 7
F64, CPU = 0, Device(0, 0)


@pytest.fixture(scope="module")
def c():
    library = ctypes.CDLL(str(library_path()))
    library.mica_last_error.restype = ctypes.c_char_p
    library.mica_library_version.restype = ctypes.c_char_p
    library.mica_function_name.restype = ctypes.c_char_p
    library.mica_function_name.argtypes = [ctypes.c_size_t]
    return library


def must(c, status):
    assert status == 0, c.mica_last_error().decode()


def tensor_of(c, values, shape):
    data = (ctypes.c_double * len(values))(*values)
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    t = ctypes.c_void_p()
    must(c, c.mica_tensor_from_host(data, sizes, len(shape), F64, CPU, ctypes.byref(t)))
    return t


def values_of(c, t, n):
    out = (ctypes.c_double * n)()
    must(c, c.mica_tensor_to_host(t, out, ctypes.c_size_t(8 * n)))
    return list(out)


def call(c, name, *arguments):
    array = (Argument * len(arguments))()
    for slot, (parameter, value) in zip(array, arguments, strict=True):
        slot.name = parameter.encode() if parameter else None
        if isinstance(value, ctypes.c_void_p):
            slot.kind, slot.value.tensor = TENSOR, value.value
        elif isinstance(value, int):
            slot.kind, slot.value.integer = INT, value
        elif isinstance(value, float):
            slot.kind, slot.value.number = FLOAT, value
        else:
            slot.kind, slot.value.text = TEXT, value.encode()
    results, count = (ctypes.c_void_p * 4)(), ctypes.c_size_t(4)
    status = c.mica_call(
        name.encode(), array, ctypes.c_size_t(len(arguments)), results, ctypes.byref(count)
    )
    must(c, status)
    return [ctypes.c_void_p(results[i]) for i in range(count.value)]


def test_calls_and_gradients_through_ctypes(c):
    assert c.mica_library_version().decode() == mica.__version__
    x = tensor_of(c, [0.5, -1.0, 2.0], [3])
    must(c, c.mica_tensor_set_requires_grad(x, True))
    (y,) = call(c, "gelu", (None, x), ("approximate", "tanh"))
    (z,) = call(c, "sum", ("input", y))
    must(c, c.mica_backward(z, None))
    g = ctypes.c_void_p()
    must(c, c.mica_tensor_grad(x, ctypes.byref(g)))
    own = mica.tensor([0.5, -1.0, 2.0], dtype=mica.float64, requires_grad=True)
    expected = mica.nn.functional.gelu(own, approximate="tanh")
    expected.sum().backward()
    assert values_of(c, y, 3) == expected.tolist()
    assert values_of(c, g, 3) == own.grad.tolist()
    for t in (x, y, z, g):
        c.mica_tensor_free(t)


def test_errors_through_ctypes(c):
    x = tensor_of(c, [1.0, 2.0], [2])
    with pytest.raises(AssertionError, match=r"no signature|expected|relu"):
        call(c, "relu", ("nothing", x))
    a, b = tensor_of(c, [1.0] * 6, [2, 3]), tensor_of(c, [1.0] * 4, [2, 2])
    array = (Argument * 2)(*[Argument(None, TENSOR, 0, Value(t.value)) for t in (a, b)])
    results, count = (ctypes.c_void_p * 1)(), ctypes.c_size_t(1)
    status = c.mica_call(b"matmul", array, ctypes.c_size_t(2), results, ctypes.byref(count))
    assert status == 2 and b"matmul" in c.mica_last_error()
    for t in (x, a, b):
        c.mica_tensor_free(t)


def test_numbers_and_lists_as_arguments(c):
    """Which only some functions take: sizes as floats, complex numbers, two lists of axes."""

    def call_with(name, *arguments):
        array = (Argument * len(arguments))(*arguments)
        result, count = ctypes.c_void_p(), ctypes.c_size_t(1)
        size = ctypes.c_size_t(len(arguments))
        must(c, c.mica_call(name, array, size, ctypes.byref(result), ctypes.byref(count)))
        return result

    def tensor(t):
        return Argument(None, TENSOR, 0, Value(tensor=t.value))

    floats, complex_number, a_list, ints = 10, 11, 12, 6
    x = tensor_of(c, [1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2])
    factors = (ctypes.c_double * 2)(2.0, 1.5)
    large = call_with(
        b"interpolate", tensor(x), Argument(b"scale_factor", floats, 2, Value(numbers=factors))
    )
    c.mica_tensor_shape.restype = ctypes.POINTER(ctypes.c_int64)
    assert c.mica_tensor_shape(large)[:4] == [1, 1, 4, 3]
    turned = call_with(b"mul", tensor(x), Argument(None, complex_number, 0, Value(numbers=factors)))
    assert c.mica_tensor_dtype(turned) == 16
    (sizes,) = call(c, "abs", (None, turned))
    assert values_of(c, sizes, 4) == pytest.approx([2.5 * v for v in (1, 2, 3, 4)])
    axes = (ctypes.c_int64 * 4)(2, 3, 2, 3)
    second = ctypes.cast(ctypes.byref(axes, 16), ctypes.POINTER(ctypes.c_int64))
    pair = (Argument * 2)(
        Argument(None, ints, 2, Value(integers=axes)),
        Argument(None, ints, 2, Value(integers=second)),
    )
    both = Value(list=ctypes.addressof(pair))
    product = call_with(b"tensordot", tensor(x), tensor(x), Argument(b"dims", a_list, 2, both))
    assert values_of(c, product, 1) == [30]
    wrong = (Argument * 1)(Argument(None, a_list, 3, Value(list=None)))
    count = ctypes.c_size_t(0)
    assert c.mica_call(b"relu", wrong, ctypes.c_size_t(1), None, ctypes.byref(count)) == 1
    assert b"list is NULL" in c.mica_last_error()
    for t in (x, large, turned, sizes, product):
        c.mica_tensor_free(t)


def test_devices_that_are_none(c):
    t, count = ctypes.c_void_p(), ctypes.c_int(-1)
    sizes = (ctypes.c_int64 * 1)(2)
    for device in (Device(0, 1), Device(0, -1), Device(1, -1), Device(2, 0)):
        assert c.mica_tensor_new(sizes, 1, F64, device, ctypes.byref(t)) == 4
        assert b"there is no device" in c.mica_last_error()
        assert c.mica_synchronize(device) == 4
    assert c.mica_device_count(9, ctypes.byref(count)) == 4 and count.value == -1
    must(c, c.mica_device_count(0, ctypes.byref(count)))
    assert count.value == 1 and t.value is None


class TrainerOptions(ctypes.Structure):
    _fields_ = [
        ("optimizer", ctypes.c_char_p),
        ("loss", ctypes.c_char_p),
        ("lr", ctypes.c_double),
        ("momentum", ctypes.c_double),
        ("weight_decay", ctypes.c_double),
    ]


def test_trainers_that_cannot_be(c):
    model, trainer = ctypes.c_void_p(), ctypes.c_void_p()
    must(c, c.mica_model_new(b"lenet", ctypes.c_int64(0), ctypes.c_int64(0), ctypes.byref(model)))
    wrong = [
        ((b"none", None, 0, 0, 0), 8, b"expected sgd, adam or adamw"),
        ((b"sgd", b"no_loss", 0, 0, 0), 8, b"no function 'no_loss'"),
        ((b"sgd", None, -1, 0, 0), 1, b"lr"),
        ((b"adam", None, math.nan, 0, 0), 1, b"lr"),
        ((b"adamw", None, 0, 0, -1), 1, b"weight_decay"),
    ]
    for given, code, text in wrong:
        options = TrainerOptions(*given)
        assert c.mica_trainer_new(model, ctypes.byref(options), ctypes.byref(trainer)) == code
        assert text in c.mica_last_error() and trainer.value is None
    must(c, c.mica_trainer_new(model, None, ctypes.byref(trainer)))
    c.mica_model_free(model)  # the trainer goes on
    shapes = [(ctypes.c_int64 * 4)(2, 1, 28, 28), (ctypes.c_int64 * 1)(2)]
    batch = [ctypes.c_void_p(), ctypes.c_void_p()]
    for t, shape, dtype in zip(batch, shapes, (1, 6), strict=True):
        must(c, c.mica_tensor_new(shape, len(shape), dtype, CPU, ctypes.byref(t)))
    loss = ctypes.c_double()
    must(c, c.mica_trainer_step(trainer, *batch, ctypes.byref(loss)))
    assert 1 < loss.value < 4
    assert c.mica_trainer_step(trainer, batch[1], batch[1], None) != 0
    for t in batch:
        c.mica_tensor_free(t)
    c.mica_trainer_free(trainer)


def test_null_for_a_tensor(c):
    """As `mica_call` gives it for a result that is none."""
    c.mica_tensor_numel.restype = ctypes.c_int64
    c.mica_tensor_device.restype = Device
    c.mica_tensor_requires_grad.restype = ctypes.c_bool
    for pointer in ("tensor_shape", "tensor_strides", "model_parameter_name"):
        getattr(c, f"mica_{pointer}").restype = ctypes.c_void_p
    assert c.mica_tensor_rank(None) == 0 and c.mica_tensor_numel(None) == 0
    assert c.mica_tensor_shape(None) is None and c.mica_tensor_strides(None) is None
    assert c.mica_tensor_dtype(None) == F64
    at = c.mica_tensor_device(None)
    assert (at.kind, at.index) == (0, 0)
    assert not c.mica_tensor_requires_grad(None)
    assert c.mica_model_parameter_name(None, ctypes.c_size_t(0)) is None
    assert c.mica_tensor_to_host(None, None, ctypes.c_size_t(0)) == 1
    assert b"the tensor is NULL" in c.mica_last_error()


def test_a_library_of_operators(c):
    plugin = library_path().parent.parent / "bin" / "mish.so"
    if not plugin.exists():
        pytest.skip("the example's plugin is not built")
    must(c, c.mica_load_ops(str(plugin).encode()))
    x = tensor_of(c, [0.5, -1.0, 2.0], [3])
    must(c, c.mica_tensor_set_requires_grad(x, True))
    (y,) = call(c, "mish_beta", (None, x), ("beta", 2.0))
    want = [v * math.tanh(math.log1p(math.exp(2 * v)) / 2) for v in (0.5, -1.0, 2.0)]
    assert values_of(c, y, 3) == pytest.approx(want, rel=1e-12)
    c.mica_function_doc.restype = ctypes.c_char_p
    assert b"tanh(softplus" in c.mica_function_doc(b"mish_beta")
    for t in (x, y):
        c.mica_tensor_free(t)


def test_a_model_of_onnx(c, tmp_path):
    net = mica.nn.Sequential(mica.nn.Linear(3, 2), mica.nn.Tanh()).double()
    path = tmp_path / "net.onnx"
    mica.onnx.export(net, mica.zeros(1, 3, dtype=mica.float64), path)
    model, x = ctypes.c_void_p(), tensor_of(c, [0.5, -1.0, 2.0], [1, 3])
    must(c, c.mica_model_from_onnx(str(path).encode(), ctypes.byref(model)))
    results, count = (ctypes.c_void_p * 2)(), ctypes.c_size_t(2)
    inputs = (ctypes.c_void_p * 1)(x)
    one = ctypes.c_size_t(1)
    must(c, c.mica_model_call_all(model, inputs, one, results, ctypes.byref(count)))
    assert count.value == 1
    expected = net(mica.tensor([[0.5, -1.0, 2.0]], dtype=mica.float64)).flatten().tolist()
    y = ctypes.c_void_p(results[0])
    assert values_of(c, y, 2) == pytest.approx(expected, rel=1e-12)
    assert c.mica_model_from_onnx(b"/no/such.onnx", ctypes.byref(model)) == 6
    for t in (x, y):
        c.mica_tensor_free(t)
    c.mica_model_free(model)


def test_complex_numbers(c):
    t, c128 = ctypes.c_void_p(), 16
    data, sizes = (ctypes.c_double * 4)(3, 4, 0, -2), (ctypes.c_int64 * 1)(2)
    must(c, c.mica_tensor_from_host(data, sizes, 1, c128, CPU, ctypes.byref(t)))
    (size,) = call(c, "abs", (None, t))
    assert values_of(c, size, 2) == [5, 2]
    for handle in (t, size):
        c.mica_tensor_free(handle)


def test_mica_from_rust(tmp_path):
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed: scripts/setup --rust")
    folder, program = library_path().parent, tmp_path / "tour"
    source = ROOT / "examples" / "rust" / "tour.rs"
    if not source.exists():
        pytest.skip("the examples are not beside the tests")
    link = ["-L", f"native={folder}", "-l", "mica", "-C", f"link-arg=-Wl,-rpath,{folder}"]
    options = ["--edition", "2021", "-D", "warnings", "-o", program]
    subprocess.run(["rustc", *options, source, *link], check=True, timeout=120)
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    assert f"mica {mica.__version__} from Rust" in done.stdout


def test_every_function_of_mica_is_there(c):
    names = []
    while name := c.mica_function_name(len(names)):
        names.append(name.decode())
    assert names == [f["name"] for f in _mica._functions()]


def test_the_list_of_symbols_is_held():
    """A symbol that was once given out stays; a new one is put into the list."""
    if not shutil.which("nm"):
        pytest.skip("nm is not installed")
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library_path()], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    found = {line.split()[-1] for line in lines}
    exported = {s for s in found if re.fullmatch(r"mica_[a-z0-9_]+", s)}
    listed = set(SYMBOLS.read_text().split())
    assert exported == listed
    if HEADER.exists():
        declared = set(re.findall(r"\b(mica_[a-z0-9_]+)\(", HEADER.read_text()))
        assert declared == listed
