"""t[key], reading and writing, against NumPy."""

import mica
import numpy as np
import pytest

SHAPE = (4, 3, 5, 2)


def random_slice(rng, n):
    step = int(rng.choice([-3, -2, -1, 1, 2, 7]))
    start, stop = (None if rng.random() < 0.4 else int(rng.integers(-n - 2, n + 3)) for _ in "ab")
    return slice(start, stop, step)


def random_key(rng):
    """A tuple of what may index an array of SHAPE, arrays among them in about half of the cases."""
    arrays = rng.random() < 0.5
    common = [(3,), (2, 3), (1, 3), (2, 1), ()][rng.integers(5)]
    axes = len(SHAPE)
    key, axis, ellipsis, masked = [], 0, False, False
    while axis < axes and rng.random() < 0.9:
        n, kind = SHAPE[axis], rng.random()
        if kind < 0.1:
            key.append(None)
        elif kind < 0.2 and not ellipsis:
            ellipsis = True
            key.append(...)
            axis += int(rng.integers(0, axes - axis + 1))
            # What follows counts from the end: leave exactly the axes that are still to come.
            rest = [
                random_slice(rng, m) if rng.random() < 0.5 else int(rng.integers(-m, m))
                for m in SHAPE[axis:]
            ]
            return (*key, *rest)
        elif kind < 0.4:
            key.append(int(rng.integers(-n, n)))
            axis += 1
        elif kind < 0.7 or not arrays:
            key.append(random_slice(rng, n))
            axis += 1
        elif kind < 0.75 and not masked and len(common) <= 1:
            masked = True
            width = int(rng.integers(1, min(2, axes - axis) + 1))
            mask = np.zeros(SHAPE[axis : axis + width], bool)
            mask.flat[rng.choice(mask.size, 3 if mask.size >= 3 else 1, replace=False)] = True
            key.append(mask)
            axis += width
        else:
            index = rng.integers(-n, n, common)
            key.append(index.tolist() if rng.random() < 0.3 and index.ndim else index)
            axis += 1
    return tuple(key)


def keys():
    """Three hundred keys that NumPy takes too."""
    rng = np.random.default_rng(3)
    array, found = np.zeros(SHAPE), []
    while len(found) < 300:
        key = random_key(rng)
        try:
            array[key]
        except IndexError:
            continue
        found.append(key)
    return found


def as_tensors(key, device):
    """The same key with tensors for its arrays."""
    return tuple(mica.tensor(k, device=device) if isinstance(k, np.ndarray) else k for k in key)


@pytest.fixture
def numbers(rng, device):
    array = rng.standard_normal(SHAPE).astype(np.float32)
    return array, mica.tensor(array, device=device)


def test_random_keys_read_as_numpy_does(numbers, device):
    array, t = numbers
    for key in keys():
        for mine in (key, as_tensors(key, device)):
            result = t[mine].cpu().numpy()
            assert result.shape == array[key].shape, key
            np.testing.assert_array_equal(result, array[key], err_msg=str(key))


def test_random_keys_write_as_numpy_does(numbers, rng, device):
    array, t = numbers
    for key in keys():
        shape = array[key].shape
        value = rng.standard_normal(shape).astype(np.float32)
        # Where an element is written twice the order is nobody's business.
        if sum(isinstance(k, (list, np.ndarray)) for k in key):
            value = np.float32(rng.standard_normal())
        array[key] = value
        t[as_tensors(key, device)] = mica.tensor(value, device=device)
        np.testing.assert_array_equal(t.cpu().numpy(), array, err_msg=str(key))
        number = float(rng.integers(100))
        array[key] = number
        t[key] = number
        np.testing.assert_array_equal(t.cpu().numpy(), array, err_msg=str(key))


def test_arrays_of_values_go_where_the_indices_say(numbers, rng, device):
    array, t = numbers
    for key, shape in [
        ((slice(None), [2, 0]), (4, 2, 5, 2)),
        ((0, slice(None, None, -1), [4, 1, 2]), (3, 3, 2)),
        (([3, 1], slice(None), [0, 2]), (2, 3, 2)),
        ((slice(None, None, -2), [[0], [1]], [[1, 3]]), (2, 2, 2, 2)),
        ((array > 0,), (int((array > 0).sum()),)),
        ((slice(None, None, -1), slice(None, None, 2)), (4, 2, 5, 2)),
    ]:
        value = rng.standard_normal(shape).astype(np.float32)
        array[key] = value
        t[key] = value
        np.testing.assert_array_equal(t.cpu().numpy(), array, err_msg=str(key))


@pytest.mark.parametrize(
    "key", [True, False, np.True_, (0, True), (None, False, 1), ([0, 1], True)]
)
def test_single_bools_add_an_axis(key, numbers):
    array, t = numbers
    np.testing.assert_array_equal(t[key].cpu().numpy(), array[key])


def test_reading_is_differentiable(numbers, rng, device):
    array, _ = numbers
    for key in keys()[:60]:
        t = mica.tensor(array, device=device, requires_grad=True)
        result = t[key]
        cotangent = rng.standard_normal(result.shape).astype(np.float32)
        result.backward(mica.tensor(cotangent, device=device))
        expected = np.zeros_like(array)
        np.add.at(expected, key, cotangent)
        np.testing.assert_allclose(t.grad.cpu().numpy(), expected, rtol=1e-5, err_msg=str(key))


def test_overlapping_parts(device):
    t = mica.arange(6, device=device)
    t[1:] = t[:-1]
    assert t.tolist() == [0, 0, 1, 2, 3, 4]
    t[::-1] = t
    assert t.tolist() == [4, 3, 2, 1, 0, 0]


def test_values_are_cast_and_broadcast(device):
    t = mica.zeros(2, 3, dtype=mica.int32, device=device)
    t[:, 1] = 2.9
    t[[0], [2]] = 7.5
    t[1] = np.array([[1, 2, 3]])
    assert t.tolist() == [[0, 2, 7], [1, 2, 3]]
    t[...] = mica.tensor(4.0, device=device)
    assert t.sum().item() == 24


def test_tensors_of_one_integer_are_integers(numbers, device):
    array, t = numbers
    two = mica.tensor(2, device=device)
    np.testing.assert_array_equal(t[two].cpu().numpy(), array[2])
    np.testing.assert_array_equal(t[0, two, : mica.tensor(3)].cpu().numpy(), array[0, 2, :3])
    assert [10, 11, 12][two] == 12


def test_wrong_keys_are_refused(numbers, device):
    _, t = numbers
    for key in (4, -5, (0, 3), (..., 2), ([0, 4],), (0, 0, 0, 0, 0), (..., ...), ([0.5],)):
        with pytest.raises(IndexError):
            t[key].tolist()  # on CUDA the values of an array of indices are seen when they are used
        with pytest.raises(IndexError):
            t[key] = 0
            t.tolist()
    for key in ("a", 1.5, {}, object()):
        with pytest.raises(TypeError, match="expected integers"):
            t[key]
    with pytest.raises(ValueError, match="step"):
        t[::0]
    with pytest.raises(IndexError, match="mask"):
        t[mica.ones(3, dtype=mica.bool, device=device)]
    with pytest.raises(ValueError, match="broadcast"):
        t[0] = mica.zeros(7, device=device)
    with pytest.raises(ValueError, match="broadcast"):
        t[[0, 1]] = mica.zeros(7, device=device)
