"""Memory shared with NumPy, PyTorch, JAX and CuPy: DLPack, buffers, CUDA's array interface.

Libraries that are not installed are skipped.
"""

import gc
import sys

import mica
import numpy as np
import pytest

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8"]
DTYPES += ["uint64", "uint32", "uint16", "uint8", "bool"]


def capsule_name(capsule):
    return repr(capsule).split('"')[1]


class Exporter:
    """An array that notes what it is asked for."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.asked = array, versioned, None

    def __dlpack__(self, **kwargs):
        self.asked = kwargs
        if "max_version" in kwargs and not self.versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


# NumPy and Python's own protocols


@pytest.mark.parametrize("dtype", DTYPES)
def test_buffer(dtype):
    t = mica.tensor([[0, 1, 2], [3, 4, 5]], dtype=dtype)
    for view in (t, t.T, t[:, ::2], t[1], t[0, 1]):
        m = memoryview(view)
        array = view.numpy()
        assert m.shape == view.shape and m.strides == array.strides and m.nbytes == array.nbytes
        char = np.dtype(dtype).char.replace("l", "q").replace("L", "Q")
        assert m.format == char and not m.readonly
        assert dtype == "float16" or m.tolist() == view.tolist()  # memoryview cannot read halves
        assert np.shares_memory(np.asarray(m), array)
    assert bytes(t) == t.numpy().tobytes()
    assert np.frombuffer(t, dtype).tolist() == t.flatten().tolist()


def test_buffer_writes_through_and_keeps_alive():
    t = mica.zeros(4)
    m = memoryview(t)
    m[2] = 5
    assert t.tolist() == [0, 0, 5, 0]
    del t
    gc.collect()
    assert m.tolist() == [0, 0, 5, 0]


def test_buffers_that_cannot_be(device):
    with pytest.raises(BufferError, match="float32"):
        memoryview(mica.ones(2, dtype=mica.bfloat16))
    with pytest.raises(BufferError, match="detach"):
        memoryview(mica.ones(2, requires_grad=True))
    with pytest.raises(BufferError, match="no values"):
        memoryview(mica.ones(2, device="null"))
    with pytest.raises(BufferError, match="contiguous"):
        np.frombuffer(mica.ones(2, 2).T)
    if device != "cpu":
        with pytest.raises(BufferError, match=r"\.cpu\(\)"):
            memoryview(mica.ones(2, device=device))


def test_array_protocol():
    t = mica.tensor([1.0, 2.0])
    assert np.shares_memory(np.asarray(t), t.numpy())
    assert np.shares_memory(np.asarray(t, copy=False), t.numpy())
    assert not np.shares_memory(np.array(t), t.numpy())
    assert np.asarray(t, dtype="int32").tolist() == [1, 2]
    assert not np.shares_memory(t.__array__(copy=True), t.numpy())
    with pytest.raises(ValueError, match="copy"):
        t.__array__(dtype=np.float64, copy=False)
    brain = t.bfloat16()
    assert np.asarray(brain).dtype == np.float32 and np.asarray(brain).tolist() == [1, 2]
    with pytest.raises(ValueError, match="copy"):
        brain.__array__(copy=False)
    with pytest.raises(mica.Error, match="detach"):
        np.asarray(t.clone().requires_grad_())


def test_numpy_by_force(device):
    t = mica.tensor([1.0, 2.0], dtype=mica.bfloat16, device=device).requires_grad_()
    assert t.numpy(force=True).tolist() == [1, 2]


def test_asarray(device):
    array = np.arange(6, dtype=np.float32)
    assert mica.asarray(array).data_ptr() == array.ctypes.data
    assert mica.as_tensor(array[::2]).strides == (2,)
    assert mica.asarray(array, copy=True).data_ptr() != array.ctypes.data
    assert mica.asarray(array, dtype=mica.int64).tolist() == [0, 1, 2, 3, 4, 5]
    assert mica.asarray([1, 2]).tolist() == [1, 2] and mica.asarray(3).item() == 3
    t = mica.ones(2, device=device)
    assert mica.asarray(t).data_ptr() == t.data_ptr() != mica.asarray(t, copy=True).data_ptr()
    assert mica.asarray(array, device=device).device == t.device
    backwards = array[::-1]
    assert mica.asarray(backwards).tolist() == backwards.tolist()
    array.flags.writeable = False
    copied = mica.asarray(array)
    assert copied.data_ptr() != array.ctypes.data and copied.tolist() == array.tolist()
    for what in (array, [1, 2], backwards):
        with pytest.raises(ValueError, match="without a copy"):
            mica.asarray(what, copy=False)
    with pytest.raises(NotImplementedError, match="without a copy"):
        mica.asarray(t, dtype=mica.float64, copy=False)


# DLPack


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_with_numpy(dtype):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    for part in (array, array.T, array[:, ::2], array[1:1], array[0, 0:1]):
        t = mica.from_dlpack(part)
        assert t.dtype is getattr(mica, dtype) and t.shape == part.shape
        back = np.from_dlpack(t)
        assert back.tolist() == part.tolist() and back.dtype == part.dtype
        if part.size:
            assert back.ctypes.data == part.ctypes.data and back.strides == part.strides


def test_dlpack_capsules(device):
    t = mica.ones(2, device=device)
    assert capsule_name(t.__dlpack__()) == "dltensor"
    assert capsule_name(t.__dlpack__(max_version=(0, 8))) == "dltensor"
    for version in ((1, 0), (1, 3), (2, 0)):
        capsule = t.__dlpack__(max_version=version)
        assert capsule_name(capsule) == "dltensor_versioned"
    assert mica.from_dlpack(capsule).data_ptr() == t.data_ptr()
    with pytest.raises(TypeError, match="used_dltensor_versioned"):
        mica.from_dlpack(capsule)
    assert t.__dlpack_device__() == ((1, 0) if device == "cpu" else (2, 0))
    assert mica.from_dlpack(t).data_ptr() == t.data_ptr()


def test_dlpack_copies_and_devices(device):
    t = mica.ones(2, device=device)
    assert mica.from_dlpack(t.__dlpack__(copy=True)).data_ptr() != t.data_ptr()
    assert mica.from_dlpack(t.__dlpack__(copy=False)).data_ptr() == t.data_ptr()
    assert mica.from_dlpack(t, copy=True).data_ptr() != t.data_ptr()
    here = mica.from_dlpack(t.__dlpack__(dl_device=(1, 0)))
    assert here.device == mica.device("cpu") and here.tolist() == [1, 1]
    assert np.from_dlpack(t, device="cpu").tolist() == [1, 1]
    with pytest.raises(BufferError, match="cannot be given"):
        t.__dlpack__(dl_device=(10, 0))
    if device != "cpu":
        with pytest.raises(BufferError, match="without a copy"):
            t.__dlpack__(dl_device=(1, 0), copy=False)
        with pytest.raises(BufferError, match="without a copy"):
            mica.from_dlpack(t, device="cpu", copy=False)
        assert mica.from_dlpack(np.ones(2), device=device).tolist() == [1, 1]


def test_dlpack_streams(device):
    t = mica.ones(2, device=device)
    assert t.__dlpack__(stream=None) and t.__dlpack__(stream=-1)
    with pytest.raises(TypeError, match="stream"):
        t.__dlpack__(stream="a")
    if device == "cpu":
        with pytest.raises(mica.DeviceError, match="no stream"):
            t.__dlpack__(stream=1)
    else:
        assert t.__dlpack__(stream=1) and t.__dlpack__(stream=2)
        with pytest.raises(ValueError, match="stream"):
            t.__dlpack__(stream=0)


def test_dlpack_asks_as_the_standard_says():
    exporter = Exporter(np.ones(3))
    assert mica.from_dlpack(exporter).tolist() == [1, 1, 1]
    assert exporter.asked == {"max_version": (1, 0)}
    old = Exporter(np.ones(3), versioned=False)
    assert mica.from_dlpack(old).tolist() == [1, 1, 1] and old.asked == {}


def test_dlpack_refuses():
    frozen = np.ones(3)
    frozen.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        mica.from_dlpack(frozen)
    assert mica.from_dlpack(frozen, copy=True).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="negative stride"):
        mica.from_dlpack(np.ones(3)[::-1])
    with pytest.raises((mica.DTypeError, BufferError)):
        mica.from_dlpack(np.ones(3, np.clongdouble))
    with pytest.raises(mica.Error, match="detach"):
        mica.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(NotImplementedError, match="null"):
        mica.ones(2, device="null").__dlpack__()
    with pytest.raises(ValueError, match="at most 8"):
        mica.from_dlpack(np.ones((1,) * 9))
    for what in (3, "a", None, object()):
        with pytest.raises(TypeError, match=r"expected an array|array: object"):
            mica.from_dlpack(what)


def test_dlpack_keeps_memory_alive_both_ways():
    array = np.ones(1000)
    before = sys.getrefcount(array)
    t = mica.from_dlpack(array)
    view = t[::2]
    del t
    assert sys.getrefcount(array) > before
    del view
    gc.collect()
    assert sys.getrefcount(array) == before
    out = np.from_dlpack(mica.full((1000,), 3))
    gc.collect()
    assert out.sum() == 3000
    unused = mica.ones(10).__dlpack__()
    del unused


# Other libraries


def other_device(device):
    return "cuda" if device.startswith("cuda") else "cpu"


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_pytorch(dtype, device):
    torch = pytest.importorskip("torch")
    theirs = torch.tensor([[0, 1, 2], [3, 4, 5]], device=other_device(device))
    theirs = theirs.to(getattr(torch, dtype))
    for part in (theirs, theirs.T, theirs[:, ::2], theirs[1]):
        t = mica.from_dlpack(part)
        assert t.data_ptr() == part.data_ptr() and t.strides == part.stride()
        assert t.dtype is getattr(mica, dtype) and t.tolist() == part.tolist()
        back = torch.from_dlpack(t)
        assert back.data_ptr() == part.data_ptr() and back.stride() == part.stride()
        assert back.dtype is part.dtype
    t.fill_(1)
    if device != "cpu":
        mica.cuda.synchronize()  # torch's stream does not wait for ours between two exchanges
    assert theirs[1].tolist() == [1, 1, 1]
    assert mica.tensor(theirs).tolist() == theirs.tolist()
    assert mica.asarray(theirs).data_ptr() == theirs.data_ptr()


def test_jax(device):
    jax = pytest.importorskip("jax")
    if device != "cpu" and jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    t = mica.arange(6, dtype=mica.float32, device=device).reshape(2, 3)
    theirs = jax.dlpack.from_dlpack(t)
    assert theirs.tolist() == t.tolist() and theirs.unsafe_buffer_pointer() == t.data_ptr()
    # Arrays of JAX are immutable: they come read-only or as memory that must not be written to.
    back = mica.from_dlpack(theirs, copy=True)
    assert back.tolist() == t.tolist()
    assert mica.tensor(theirs + 1).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_cupy(device):
    cupy = pytest.importorskip("cupy")
    if device == "cpu":
        pytest.skip("CuPy has no arrays on the CPU")
    t = mica.arange(6, dtype=mica.float32, device=device).reshape(2, 3)
    for theirs in (cupy.from_dlpack(t.T), cupy.asarray(t.T)):
        assert theirs.data.ptr == t.data_ptr() and theirs.strides == (4, 12)
        assert theirs.get().tolist() == t.T.tolist()
    for back in (mica.from_dlpack(theirs), mica.asarray(theirs)):
        assert back.data_ptr() == t.data_ptr() and back.strides == (1, 3)


# CUDA


class CudaArray:
    """What libraries without DLPack offer."""

    def __init__(self, t, **changes):
        self.kept = t
        self.__cuda_array_interface__ = {**t.__cuda_array_interface__, **changes}


def test_cuda_array_interface(device):
    t = mica.arange(6, dtype=mica.float32, device=device).reshape(2, 3)
    if device == "cpu":
        assert not hasattr(t, "__cuda_array_interface__")
        return
    d = t.__cuda_array_interface__
    assert d["version"] == 3 and d["shape"] == (2, 3) and d["typestr"] == "<f4"
    assert d["data"] == (t.data_ptr(), False) and d["strides"] is None and d["stream"] not in (0,)
    assert t.T.__cuda_array_interface__["strides"] == (4, 12)
    assert not hasattr(t.bfloat16(), "__cuda_array_interface__")
    for mine in (t, t.T):
        back = mica.from_dlpack(CudaArray(mine))
        assert back.data_ptr() == t.data_ptr() and back.tolist() == mine.tolist()
    assert mica.tensor(CudaArray(t)).data_ptr() != t.data_ptr()
    with pytest.raises(BufferError, match="read-only"):
        mica.from_dlpack(CudaArray(t, data=(t.data_ptr(), True)))
    with pytest.raises(TypeError, match="no tensor dtype"):
        mica.from_dlpack(CudaArray(t, typestr="<M8"))


def test_streams_are_in_order(device):
    """Kernels of both libraries on one memory, each before the other's are done."""
    torch = pytest.importorskip("torch")
    if device == "cpu":
        pytest.skip("no CUDA device")
    n = 1 << 24
    for side in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(side):
            for k in range(20):
                t = mica.full((n,), k, device=device)
                for _ in range(4):
                    t = t + 1
                theirs = torch.from_dlpack(t)
                for _ in range(4):
                    theirs = theirs + 1
                back = mica.from_dlpack(theirs) * 2
                assert back[:: n // 7].tolist() == [2 * (k + 8)] * 8
                assert back.max().item() == back.min().item() == 2 * (k + 8)
