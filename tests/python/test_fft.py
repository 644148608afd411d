"""Fourier transforms beside NumPy's: lengths, axes, sizes, norms, gradients, frames."""

import mica
import numpy as np
import pytest

RNG = np.random.default_rng(1)
LENGTHS = [
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    11,
    13,
    16,
    17,
    31,
    32,
    33,
    97,
    100,
    127,
    128,
    129,
    255,
    257,
    360,
    1000,
    1009,
    1025,
    2310,
    4096,
    5003,
]
FORMS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]


def signal(*shape, real=False):
    a = RNG.normal(size=shape)
    return a if real else a + 1j * RNG.normal(size=shape)


def close(ours, theirs, dtype="float64"):
    ours = np.asarray(ours)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    scale = np.sqrt(np.mean(np.abs(theirs) ** 2)) + 1e-300
    error = np.abs(ours - theirs).max() / scale if ours.size else 0
    assert error < (2e-14 if dtype == "float64" else 4e-6), error


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("lines", [1, 3, 20])
def test_lengths(n, lines):
    for wide, narrow in (("complex128", "float64"), ("complex64", "float32")):
        a = signal(lines, n).astype(wide)
        exact = a.astype("complex128")
        close(mica.fft.fft(mica.tensor(a)), np.fft.fft(exact), narrow)
        close(mica.fft.ifft(mica.tensor(a)), np.fft.ifft(exact), narrow)
        r = a.real.copy()
        close(mica.fft.rfft(mica.tensor(r)), np.fft.rfft(r.astype("float64")), narrow)
        m = n // 2 + 1
        close(
            mica.fft.irfft(mica.tensor(a[:, :m].copy()), n), np.fft.irfft(exact[:, :m], n), narrow
        )


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", FORMS)
def test_forms(name, norm):
    a = signal(4, 6, 5, real=name in ("rfft", "ihfft"))
    for axis in (-1, 0, 1):
        for n in (None, 3, 9):
            ours = getattr(mica.fft, name)(mica.tensor(a), n, axis, norm)
            close(ours, getattr(np.fft, name)(a, n, axis, norm))


@pytest.mark.parametrize(
    "name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"]
)
def test_several_axes(name):
    a = signal(4, 6, 5, real=name.startswith("r"))
    two = name.endswith("2")
    for s, axes in ((None, (0, 2)), ((3, 8), (2, 1)), (None, None), ((5, 7, 4), (0, 1, 2))):
        if two and (axes is None or len(axes) != 2):
            axes, s = (-2, -1), None
        kwargs = {} if axes is None else {"dim": axes}
        ours = getattr(mica.fft, name)(mica.tensor(a), s, **kwargs)
        close(ours, getattr(np.fft, name)(a, s, axes))


def test_shifts_and_frequencies():
    for n in (1, 2, 7, 8):
        assert np.allclose(mica.fft.fftfreq(n, 0.5, dtype=mica.float64), np.fft.fftfreq(n, 0.5))
        assert np.allclose(mica.fft.rfftfreq(n, 2.0), np.fft.rfftfreq(n, 2.0))
    a = signal(5, 6)
    x = mica.tensor(a)
    assert np.array_equal(mica.fft.fftshift(x), np.fft.fftshift(a))
    assert np.array_equal(mica.fft.ifftshift(x, 1), np.fft.ifftshift(a, 1))


def test_errors_and_dtypes():
    with pytest.raises(mica.ShapeError, match="fft: expected at least one element"):
        mica.fft.fft(mica.ones(3), 0)
    with pytest.raises(mica.DTypeError, match="rfft: expected real numbers, got c64"):
        mica.fft.rfft(mica.ones(3, dtype=mica.complex64))
    with pytest.raises(mica.ShapeError, match="irfft"):
        mica.fft.irfft(mica.ones(1, dtype=mica.complex64))
    with pytest.raises(mica.ShapeError, match="twice"):
        mica.fft.fftn(mica.ones(3, 3), dim=(0, 0))
    with pytest.raises(mica.Error, match="norm must be one of"):
        mica.fft.fft(mica.ones(3), norm="both")
    assert mica.fft.fft(mica.ones(4)).dtype is mica.complex64
    assert mica.fft.fft(mica.ones(4, dtype=mica.int32)).tolist() == [4, 0, 0, 0]
    assert mica.fft.rfft(mica.ones(4, dtype=mica.float16)).dtype is mica.complex64
    assert mica.fft.fft(mica.ones(0, 4)).shape == (0, 4)


@pytest.mark.parametrize("n", [1, 2, 5, 6, 17])
@pytest.mark.parametrize("name", FORMS)
def test_gradients(name, n):
    a = signal(2, n, real=name in ("rfft", "ihfft"))
    x = mica.tensor(a).requires_grad_()
    size = n if name in ("irfft", "hfft") else None
    f = lambda t: getattr(mica.fft, name)(t, size)  # noqa: E731
    assert mica.autograd.gradcheck(f, [x]) and mica.autograd.gradgradcheck(f, [x])


def frames(a, n_fft, hop, window):
    a = np.pad(a, n_fft // 2, "reflect")
    cut = [a[i : i + n_fft] * window for i in range(0, len(a) - n_fft + 1, hop)]
    return np.fft.rfft(cut, axis=1).T


@pytest.mark.parametrize(("n_fft", "hop"), [(16, 4), (15, 5), (32, 7)])
def test_short_time_transforms(n_fft, hop):
    a = signal(3, 100, real=True)
    window = np.hanning(n_fft + 1)[:-1]
    w = mica.tensor(window)
    spectrum = mica.stft(mica.tensor(a), n_fft, hop, window=w)
    for ours, line in zip(spectrum, a, strict=True):
        close(ours, frames(line, n_fft, hop, window))
    back = mica.istft(spectrum, n_fft, hop, window=w, length=100)
    inner = slice(0, 90)
    assert np.abs(back.numpy()[:, inner] - a[:, inner]).max() < 1e-12
    two_sided = mica.stft(mica.tensor(a[0]), n_fft, hop, window=w, onesided=False)
    close(two_sided[: n_fft // 2 + 1], frames(a[0], n_fft, hop, window))
    again = mica.istft(two_sided, n_fft, hop, window=w, onesided=False, length=100)
    assert np.abs(again.numpy()[inner] - a[0][inner]).max() < 1e-12
    with pytest.raises(mica.Error, match="add up to 0"):
        mica.istft(spectrum, n_fft, hop, window=mica.zeros(n_fft, dtype=mica.float64))
    with pytest.raises(mica.ShapeError, match="window must have"):
        mica.stft(mica.tensor(a), n_fft, hop, window=mica.ones(3))
