"""Tensors to and from NumPy, lists and DLPack."""

import gc

import mica
import numpy as np
import pytest

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8"]
DTYPES += ["uint64", "uint32", "uint16", "uint8", "bool"]


@pytest.mark.parametrize("name", DTYPES)
def test_round_trip_of_each_dtype(name, device):
    array = np.array([[0, 1, 2], [3, 0, 5]]).astype(name)
    t = mica.tensor(array, device=device)
    assert t.dtype is getattr(mica, name)
    assert t.shape == (2, 3) and t.ndim == 2 and t.numel() == 6 and len(t) == 2
    back = t.cpu().numpy()
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_python_numbers_and_lists():
    assert mica.tensor(3).dtype is mica.int64
    assert mica.tensor(2.5).dtype is mica.float32
    assert mica.tensor(True).dtype is mica.bool
    assert mica.tensor([1, 2.5]).dtype is mica.float32
    assert mica.tensor([[1, 2], [3, 4]]).numpy().tolist() == [[1, 2], [3, 4]]
    assert mica.tensor(2**62 + 1).item() == 2**62 + 1
    assert mica.tensor([]).shape == (0,)
    assert mica.tensor([[], []]).shape == (2, 0)
    assert mica.tensor([1, 2], dtype=mica.float64).dtype is mica.float64
    assert mica.tensor([np.zeros(2, np.float32), np.ones(2, np.float32)]).shape == (2, 2)


def test_ragged_lists_are_refused():
    with pytest.raises(mica.ShapeError, match="different lengths"):
        mica.tensor([[1, 2], [3]])
    with pytest.raises(mica.ShapeError):
        mica.tensor([1, [2]])


@pytest.mark.parametrize(
    "spelling", ["float64", "f64", np.float64, np.dtype("float64"), mica.float64]
)
def test_spellings_of_a_dtype(spelling):
    assert mica.zeros(2, dtype=spelling).dtype is mica.float64
    assert mica.zeros(2).to(spelling).dtype is mica.float64


def test_tensor_copies_strided_arrays(rng):
    array = rng.standard_normal((4, 6, 8))
    for view in (array[:, ::2], array.transpose(2, 0, 1), array[::-1], array[1:3, :, 5]):
        np.testing.assert_array_equal(mica.tensor(view).numpy(), view)


def test_from_numpy_shares_memory_and_strides():
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    t = mica.from_numpy(array[::2, 1::3])
    assert t.shape == (2, 2) and t.strides == (12, 3) and not t.is_contiguous()
    np.testing.assert_array_equal(t.numpy(), array[::2, 1::3])
    t.fill_(-1)
    assert array[0, 1] == -1 and array[2, 4] == -1 and array[0, 0] == 0
    array[0, 1] = 5
    assert t[0, 0].item() == 5


def test_from_numpy_keeps_the_array_alive():
    t = mica.from_numpy(np.full(1000, 3.0))
    gc.collect()
    assert t.sum().item() == 3000


def test_from_numpy_refuses_what_it_cannot_share():
    with pytest.raises(mica.ShapeError, match="negative stride"):
        mica.from_numpy(np.arange(3.0)[::-1])
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        mica.from_numpy(frozen)
    with pytest.raises((mica.DTypeError, TypeError)):
        mica.from_numpy(np.zeros(3, np.clongdouble))
    with pytest.raises(TypeError, match="expected an array, got dict"):
        mica.from_numpy({})


def test_numpy_shares_memory_and_keeps_it_alive():
    t = mica.zeros(3)
    array = t.numpy()
    array[1] = 7
    assert t[1].item() == 7
    del t
    gc.collect()
    np.testing.assert_array_equal(array, [0, 7, 0])


def test_views_go_to_numpy_with_their_strides(rng):
    array = rng.standard_normal((2, 3, 4)).astype(np.float32)
    t = mica.tensor(array)
    assert t.permute(2, 0, 1).numpy().strides == (4, 48, 16)
    np.testing.assert_array_equal(t.permute(2, 0, 1).numpy(), array.transpose(2, 0, 1))
    np.testing.assert_array_equal(t.transpose(0, 2).numpy(), array.swapaxes(0, 2))
    np.testing.assert_array_equal(t.T.numpy(), array.T)


def test_channels_last(rng, device):
    array = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    t = mica.tensor(array, device=device).contiguous(mica.channels_last)
    assert t.strides == (60, 1, 15, 3)
    assert t.is_contiguous(memory_format=mica.channels_last) and not t.is_contiguous()
    back = t.cpu().numpy()
    np.testing.assert_array_equal(back, array)
    assert back.strides == (240, 4, 60, 12)
    nhwc = np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    adopted = mica.from_numpy(nhwc)
    assert adopted.is_contiguous(mica.channels_last)
    assert adopted.to(device=device).is_contiguous(mica.channels_last)


def test_empty_and_zero_dimensional():
    assert mica.zeros(0, 3).numpy().shape == (0, 3)
    assert mica.tensor(2.0).numpy().shape == ()
    assert mica.from_numpy(np.zeros((3, 0), np.float32)).shape == (3, 0)


def test_array_protocol(rng):
    t = mica.tensor(rng.standard_normal((3, 2)).astype(np.float32))
    assert np.shares_memory(np.asarray(t), t.numpy())
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    copied = np.array(t)
    copied[:] = 0
    assert t.numpy().any()


def test_dlpack_both_ways(rng):
    array = rng.standard_normal((3, 4)).astype(np.float32)
    t = mica.from_dlpack(array)
    assert t.__dlpack_device__() == (1, 0)
    back = np.from_dlpack(t.T)
    np.testing.assert_array_equal(back, array.T)
    assert np.shares_memory(back, array)


def test_bfloat16_has_no_numpy_type(device):
    t = mica.tensor([1.0, 2.5], dtype=mica.bfloat16, device=device)
    with pytest.raises(mica.DTypeError, match="bfloat16"):
        t.cpu().numpy()
    assert t.to(mica.float32).cpu().numpy().tolist() == [1.0, 2.5]


def test_numpy_of_a_tensor_with_gradient_says_detach():
    t = mica.ones(2)
    t.requires_grad = True
    with pytest.raises(mica.Error, match="detach"):
        t.numpy()
    assert t.detach().numpy().tolist() == [1, 1]


def test_numpy_of_a_cuda_tensor_says_cpu(device):
    if device == "cpu":
        pytest.skip("no CUDA device")
    with pytest.raises(TypeError, match=r"\.cpu\(\)"):
        mica.zeros(2, device=device).numpy()
