"""Numbers among the arguments of compiled functions: guarded, or read by each run."""

import threading

import mica
import pytest

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]


def bits(x):
    return x.dtype, x.shape, x.to(mica.float64).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [float, int])
def test_a_number_that_keeps_changing_is_read(device, dtype, kind):
    def f(x, k, *, shift):
        return [x * k, k + x, x - (k + 1), (k * 2) * x + shift, abs(-k) * x]

    x = mica.tensor([0, 1, 3, 7], dtype=getattr(mica, dtype), device=device)
    compiled = mica.compile(f)
    for i in range(12):
        k = kind(i) if kind is int else 0.1 + i / 3
        both = compiled(x, k, shift=kind(2 * i)), f(x, k, shift=kind(2 * i))
        for got, want in zip(*both, strict=True):
            assert got.dtype is want.dtype
            # One kernel multiplies and adds in one rounding on a GPU, two kernels do not.
            assert bits(got) == bits(want) or (
                device != "cpu" and bits(got)[2] == pytest.approx(bits(want)[2], rel=2e-7)
            )
    assert compiled.captures <= 4


def test_kinds_are_not_mixed(device):
    x = mica.arange(3, device=device)
    f = mica.compile(lambda x, k: x * k)
    for i in range(8):
        assert f(x, i).dtype is mica.int64
    read = f.captures
    for i in range(8):
        assert f(x, float(i)).dtype is mica.float32
    assert f(x, 9).tolist() == [0, 9, 18] and f(x, True).tolist() == [0, 1, 2]
    assert f.captures <= read + 5


def test_what_needs_the_value_is_guarded(device):
    def f(x, k):
        if k > 2:
            return x + 100
        return mica.full((k,), 1.0, device=device).sum() + x

    compiled = mica.compile(f)
    x = mica.ones(1, device=device)
    for k in [1, 2, 3, 4, 5, 1, 2, 3, 6, 2]:
        assert compiled(x, k).tolist() == f(x, k).tolist()


def test_numbers_in_trees_and_results(device):
    @mica.compile
    def f(batch, scales):
        return {"x": batch["x"] * scales[0], "k": scales[0], "n": batch["n"]}

    x = mica.ones(2, device=device)
    for i in range(8):
        got = f({"x": x, "n": i}, (0.5 + i, None))
        assert got["x"].tolist() == [0.5 + i] * 2 and got["k"] == 0.5 + i and got["n"] == i
    none = mica.compile(lambda x, k: x if k is None else x * k)
    assert [none(x, k).tolist()[0] for k in (None, 2.0, 3.0, 4.0, 5.0, None)] == [1, 2, 3, 4, 5, 1]


def test_steps_with_a_rate_of_the_callers(device):
    w = mica.ones(3, device=device)

    @mica.compile
    def step(g, lr):
        w.sub_(g * lr)

    expected = mica.ones(3, device=device)
    g = mica.tensor([1.0, 2.0, 3.0], device=device)
    for i in range(20):
        lr = 0.1 / (i + 1)
        step(g, lr)
        expected = expected - g * lr
    same = w.tolist() if device == "cpu" else pytest.approx(w.tolist(), rel=1e-5)  # see above
    assert same == expected.tolist() and step.captures <= 4


def test_a_compiled_function_inside_another(device):
    inner = mica.compile(lambda x, k: x * k)
    outer = mica.compile(lambda x, k: inner(x, k) + inner(x, 2.0))
    x = mica.ones(1, device=device)
    for i in range(8):
        assert outer(x, i + 0.5).item() == i + 2.5
        assert inner(x, float(i)).item() == i


def test_gradients(device):
    f = mica.compile(lambda x, k: (x * k).sum())
    for i in range(6):
        x = mica.ones(2, device=device, requires_grad=True)
        f(x, 1.0 + i).backward()
        assert x.grad.tolist() == [1.0 + i] * 2


def test_threads_have_numbers_of_their_own(device):
    f = mica.compile(lambda x, k: x * k)
    x = mica.ones(4, device=device)
    wrong = []

    def work(first):
        for i in range(200):
            k = float(first * 1000 + i)
            if f(x, k).tolist() != [k] * 4:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
