"""Runs of the Trainer in lower precision."""

import mica
import numpy as np
import pytest
from mica import data, nn, optim, train
from test_trainer import Net, quadrants, weights


def run(device, epochs=4, seed=1, net=None, **options):
    mica.manual_seed(seed)
    net = (net or Net()).to(device)
    optimizer = optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    x, y = quadrants()
    loaders = (
        data.DataLoader((x, y), 32, shuffle=1, device=device),
        data.DataLoader((x, y), 64, device=device),
    )
    trainer = train.Trainer(net, optimizer, epochs=epochs, progress=False, **options)
    return net, optimizer, trainer, loaders


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("precision", ["f32", "tf32", "bf16", "f16"])
def test_every_precision_learns(device, precision, compiled):
    net, _, trainer, loaders = run(device, 8, precision=precision, compile=compiled)
    outcome = trainer.fit(*loaders)
    assert outcome.epochs[-1].test_accuracy > 0.9
    assert all(p.dtype == mica.float32 for p in net.parameters())
    low = {"bf16": "bfloat16", "f16": "float16"}.get(precision)
    if low and compiled:
        plain = run(device, 8, precision="f32")
        plain[2].fit(*plain[3])
        assert not np.array_equal(weights(net), weights(plain[0]))  # something is rounded


def test_f32_is_what_a_run_without_precision_is(device):
    mica.set_deterministic(True)
    before = mica.allow_tf32()
    mica.set_allow_tf32(False)
    first, second = run(device), run(device, precision="f32")
    for _, _, trainer, loaders in (first, second):
        trainer.fit(*loaders)
    assert np.array_equal(weights(first[0]), weights(second[0]))
    tf32 = run(device, precision="tf32")
    tf32[2].fit(*tf32[3])
    assert mica.allow_tf32() is False
    mica.set_allow_tf32(before)


def test_other_precisions_raise(device):
    with pytest.raises(mica.Error, match='must be "f32", "tf32", "bf16" or "f16", got "f8"'):
        run(device, precision="f8")


class Huge(nn.Module):
    """Its gradients are beyond float16 where `factor` is."""

    def __init__(self, factor):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.register_buffer("factor", mica.tensor(factor))

    def forward(self, x):
        return self.fc(x) * self.factor


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_step_that_overflows_changes_nothing_but_the_scale(device, tmp_path, compiled):
    net, optimizer, trainer, loaders = run(
        device, 1, precision="f16", compile=compiled, out=tmp_path, steps_per_epoch=3, net=Huge(1e8)
    )
    before, state = weights(net), {k: t.clone() for k, t in optimizer.state_dict().items()}
    trainer.fit(*loaders)
    assert np.array_equal(weights(net), before)
    after = optimizer.state_dict()
    assert list(after) == list(state)
    assert all(np.array_equal(after[k].cpu().numpy(), t.cpu().numpy()) for k, t in state.items())
    saved = mica.io.load_checkpoint(tmp_path / "last.safetensors")
    assert saved.metadata["scaler"] == "0x1p+13 0"  # 65536, halved three times


def test_f16_goes_on_to_the_bit(device, tmp_path):
    mica.set_deterministic(True)
    options = {"precision": "f16", "clip_norm": 1.0}
    whole = run(device, 4, out=tmp_path / "whole", **options)
    whole[2].fit(*whole[3])
    half = run(device, 2, out=tmp_path / "half", **options)
    half[2].fit(*half[3])
    rest = run(device, 4, seed=9, out=tmp_path / "half", **options)
    rest[2].resume(tmp_path / "half")
    rest[2].fit(*rest[3])
    assert np.array_equal(weights(whole[0]), weights(rest[0]))
    last = [
        mica.io.load_checkpoint(tmp_path / name / "last.safetensors") for name in ("whole", "half")
    ]
    assert last[0].metadata["scaler"] == last[1].metadata["scaler"] == "0x1p+16 32"
    assert "Precision" in (tmp_path / "whole" / "report.html").read_text()
    # A file that says something else is refused.
    bad = mica.io.load_checkpoint(tmp_path / "half" / "last.safetensors")
    bad.metadata = bad.metadata | {"scaler": "soon 3"}
    mica.io.save_checkpoint(tmp_path / "bad.safetensors", bad)
    with pytest.raises(mica.IoError, match="its `scaler` is not that of a run: soon 3"):
        rest[2].resume(tmp_path / "bad.safetensors")


def test_bf16_evaluates_in_bf16(device):
    seen = []

    class Seeing(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            y = self.fc(x)
            seen.append((self.training, y.dtype))
            return y

    _, _, trainer, loaders = run(device, 1, precision="bf16", net=Seeing())
    trainer.fit(*loaders)
    assert {dtype for _, dtype in seen} == {mica.bfloat16}
    assert {training for training, _ in seen} == {True, False}
