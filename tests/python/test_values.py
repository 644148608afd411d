"""Modules, hooks, compiled functions and checkpoints over trees of tensors."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import mica
import numpy as np
import pytest
from mica import nn


class Gaussian(NamedTuple):
    mean: mica.Tensor
    log_var: mica.Tensor


@dataclasses.dataclass(frozen=True)
class Boxes:
    corners: mica.Tensor
    scores: mica.Tensor | None = None


class Encoder(nn.Module):
    """Two inputs and a named pair of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(3, 2)
        self.right = nn.Linear(4, 2)

    def forward(self, a: mica.Tensor, b: mica.Tensor) -> dict[str, mica.Tensor]:
        h = self.left(a) + self.right(b)
        return {"mean": h, "log_var": h * 2}


class Sample(nn.Module):
    def forward(self, g: dict[str, mica.Tensor]) -> mica.Tensor:
        return g["mean"] + g["log_var"]


class ByName(nn.Module):
    def forward(self, mean: mica.Tensor, log_var: mica.Tensor) -> mica.Tensor:
        return mean - log_var


def inputs() -> tuple[mica.Tensor, mica.Tensor]:
    return mica.ones(5, 3), mica.ones(5, 4)


def test_sequential_passes_trees() -> None:
    a, b = inputs()
    encoder = Encoder()
    encoder.requires_grad_(False)
    g = encoder(a, b)
    np.testing.assert_array_equal(
        nn.Sequential(encoder, Sample())(a, b).numpy(), (g["mean"] + g["log_var"]).numpy()
    )
    np.testing.assert_array_equal(
        nn.Sequential(encoder, ByName())(a, b).numpy(), (g["mean"] - g["log_var"]).numpy()
    )
    same = nn.Sequential(encoder)(a, b)
    assert list(same) == ["mean", "log_var"]


def test_structures_come_back_as_they_were() -> None:
    class Echo(nn.Module):
        def forward(self, value: Any) -> Any:
            return value

    x = mica.ones(2)
    net = nn.Sequential(Echo(), Echo())
    for value in (
        {"a": x, "b": [x, None, (x,)]},
        [x, {"y": x}],
        (x, x),
        Gaussian(x, x),
        Boxes(x),
        Boxes(x, x),
        {},
        [],
        None,
    ):
        back = net(value)
        assert type(back) is type(value)
        assert repr(back) == repr(value)


def test_unknown_structures_name_the_leaf() -> None:
    class Odd(nn.Module):
        def forward(self, x: mica.Tensor) -> Any:
            return {"image": [x, x, "pixels"]}

    with pytest.raises(TypeError, match=r'Odd\.forward\(…\)\["image"\]\[2\]: expected .* got str'):
        nn.Sequential(Odd(), Sample())(mica.ones(1))
    with pytest.raises(TypeError, match=r"input\[1\]: expected a tensor, None, .* got float"):
        nn.Sequential(Encoder())(mica.ones(1), 2.0)
    with pytest.raises(TypeError, match=r"expected a dict with texts as keys, got 3"):
        nn.Sequential(Sample())({3: mica.ones(1)})
    with pytest.raises(mica.Error, match="expected a tensor, got"):
        nn.Sequential(nn.Linear(3, 2))((mica.ones(1, 3), mica.ones(1, 3)))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(mica.Error):
        nn.Sequential(Sample())(endless)


def test_hooks_see_trees() -> None:
    a, b = inputs()
    encoder = Encoder()
    net = nn.Sequential(encoder)
    seen = []
    encoder.register_forward_pre_hook(lambda m, args: seen.append(len(args)))
    encoder.register_forward_hook(lambda m, args, out: {"mean": out["mean"]})
    assert list(net(a, b)) == ["mean"]
    assert list(encoder(a, b)) == ["mean"]
    assert seen == [2, 2]
    # On the container, whose call comes from Python.
    net.register_forward_hook(lambda m, args, out: out["mean"])
    assert net(a, b).shape == (5, 2)


def test_compiled_arguments_and_results() -> None:
    @mica.compile
    def f(batch: Any, scale: float = 1.0, *, mode: str = "plain", none: Any = None) -> Any:
        y = batch["x"] * scale
        if mode == "negative":
            y = -y
        return {"y": y, "pair": Gaussian(y, batch["more"][0]), "n": len(batch), "none": none}

    def batch(v: float) -> dict[str, Any]:
        return {"x": mica.full((2,), v), "more": [mica.ones(1), None]}

    for v in (1.0, 2.0):
        out = f(batch(v), 3.0)
        np.testing.assert_array_equal(out["y"].numpy(), [3 * v, 3 * v])
        assert isinstance(out["pair"], Gaussian)
        assert out["n"] == 2
        assert out["none"] is None
    assert f.captures == 1
    np.testing.assert_array_equal(f(batch(1), 4.0)["y"].numpy(), [4, 4])
    np.testing.assert_array_equal(f(batch(1), 4.0, mode="negative")["y"].numpy(), [-4, -4])
    np.testing.assert_array_equal(f(batch(1), scale=4.0)["y"].numpy(), [4, 4])
    assert f.captures == 4
    f(batch(1), 3.0)
    assert f.captures == 4
    # True is no 1.
    np.testing.assert_array_equal(f(batch(1), True)["y"].numpy(), [1, 1])
    assert f.captures == 5
    with pytest.raises(TypeError, match=r'compile: argument 1\["x"\]: expected .* got object'):
        f({"x": object()})
    with pytest.raises(TypeError, match=r"compile: argument mode: expected .* got object"):
        f(batch(1), mode=object())


def test_compiled_results_name_the_leaf() -> None:
    @mica.compile
    def f(x: mica.Tensor) -> Any:
        return [x, {"odd": object()}]

    with pytest.raises(TypeError, match=r"""result\[1\]\["odd"\]: expected .* got object"""):
        f(mica.ones(1))


def test_checkpoint_of_trees() -> None:
    encoder = Encoder()
    a, b = inputs()
    a.requires_grad = True

    def body(batch: dict[str, Any], factor: float, other: object) -> dict[str, Any]:
        assert isinstance(other, range)
        out = encoder(batch["a"], batch["b"][0])
        return {"mean": out["mean"] * factor, "n": batch["n"]}

    def gradients(run: Any) -> list[np.ndarray]:
        a.grad = None
        encoder.zero_grad()
        out = run(body, {"a": a, "b": [b], "n": 3}, 2.0, range(2))
        assert out["n"] == 3
        (out["mean"] ** 2).sum().backward()
        return [a.grad.numpy(), encoder.left.weight.grad.numpy()]

    plain = gradients(lambda f, *args: f(*args))
    for got, want in zip(gradients(mica.autograd.checkpoint), plain, strict=True):
        np.testing.assert_array_equal(got, want)
