"""Each C++ exception arrives as the Python one that a user expects, with its message."""

import mica
import mica.nn.functional as F
import pytest

EXPECTED = {
    "ShapeError": ValueError,
    "DTypeError": TypeError,
    "DeviceError": RuntimeError,
    "OutOfMemory": MemoryError,
    "IoError": OSError,
    "IndexError": IndexError,
    "Unsupported": NotImplementedError,
}


@pytest.mark.parametrize(("name", "builtin"), EXPECTED.items())
def test_classes(name, builtin):
    cls = getattr(mica, name)
    assert issubclass(cls, mica.Error) and issubclass(cls, builtin)
    assert issubclass(mica.Error, RuntimeError)
    assert f"{cls.__module__}.{cls.__qualname__}" == f"mica.{name}"


def test_shape_error_names_the_operator_and_the_shapes():
    with pytest.raises(ValueError, match=r"conv2d: .*\[8, 4, 3, 3\]"):
        F.conv2d(mica.zeros(1, 3, 8, 8), mica.zeros(8, 4, 3, 3))


def test_dtype_error():
    with pytest.raises(mica.DTypeError, match="no dtype is named 'float7'"):
        mica.zeros(2, dtype="float7")
    with pytest.raises(mica.DTypeError, match="floating"):
        mica.zeros(2, dtype=mica.int64).requires_grad = True


def test_device_error():
    with pytest.raises(mica.DeviceError, match="nowhere"):
        mica.zeros(2, device="nowhere")
    if not mica.cuda.is_available():
        with pytest.raises(mica.DeviceError, match="cuda"):
            mica.zeros(2, device="cuda")
        assert mica.cuda.unavailable_reason()
        assert mica.cuda.device_count() == 0


def test_out_of_memory():
    with pytest.raises(MemoryError) as e:
        mica.empty(2**50)
    assert isinstance(e.value, mica.OutOfMemory)


def test_io_error():
    with pytest.raises(OSError, match="/no/such/place") as e:
        mica.data.fashion_mnist(directory="/no/such/place")
    assert isinstance(e.value, mica.IoError)


def test_unsupported_names_the_reason():
    @mica.compile
    def reads(x):
        return x * x.sum().item()

    with pytest.raises(NotImplementedError, match="while a graph is captured"):
        reads(mica.ones(2))


def test_settings():
    threads = mica.num_threads()
    mica.set_num_threads(1)
    assert mica.num_threads() == 1
    mica.set_num_threads(threads)
    mica.set_deterministic(True)
    assert mica.deterministic()
    mica.set_allow_tf32(True)
    assert mica.allow_tf32()
    mica.set_allow_tf32(False)
    mica.set_autotune(True)
    assert mica.autotune()
    mica.set_autotune(False)
    assert mica.devices()[0] == mica.device("cpu")
    assert mica.memory_stats("cpu")["allocated"] >= 0


def test_messages_have_names_of_python():
    w = mica.ones(2).requires_grad_()
    with pytest.raises(mica.Error, match=r"do it under no_grad\(\), or on a detached tensor"):
        w.add_(1)
    with pytest.raises(mica.Error, match=r"writes in place to .* under no_grad\(\)"):
        w[0] = (w * 2)[0]
    with pytest.raises(ValueError, match="only a one-element output may go without a gradient"):
        (w * 2).backward()
