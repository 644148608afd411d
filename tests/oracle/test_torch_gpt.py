"""A GPT of 10 million parameters on bytes of real text beside PyTorch's: the same weights and data,
500 steps of AdamW, one loss curve.

    MICA_TEST_DEVICE=cuda PYTHONPATH=build/cuda/python \\
        python -m pytest tests/oracle/test_torch_gpt.py

On the CPU a small one of 30 steps. Skipped where PyTorch is not installed.
"""

import os
import sys
import sysconfig
from pathlib import Path

import mica
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "peers"))
import torch_gpt  # noqa: E402

DEVICE = os.environ.get("MICA_TEST_DEVICE", "cpu")
ON_GPU = DEVICE.startswith("cuda")
LAYERS, HEADS, WIDTH, LENGTH, BATCH, STEPS = (
    (6, 6, 384, 256, 16, 500) if ON_GPU else (2, 2, 32, 32, 4, 30)
)
PARTS = {
    "ln1": "ln_1",
    "ln2": "ln_2",
    "qkv": "attn.c_attn",
    "proj": "attn.c_proj",
    "fc": "mlp.c_fc",
    "out": "mlp.c_proj",
}


def own_key(key):
    """mica's name of a parameter of the peer's."""
    first, _, rest = key.partition(".")
    if first != "blocks":
        return f"transformer.{'ln_f' if first == 'lnf' else first}.{rest}"
    number, part, kind = rest.split(".")
    return f"transformer.h.{number}.{PARTS[part]}.{kind}"


def batches():
    """Sequences of bytes from Python's own library, in an order that both get."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    text = b"".join(p.read_bytes() for p in sorted(folder.glob("*.py"))[:60])
    data = np.frombuffer(text, np.uint8).astype(np.int64)
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        begins = rng.integers(0, len(data) - LENGTH - 1, BATCH)
        rows = np.stack([data[b : b + LENGTH + 1] for b in begins])
        yield np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])


def by_torch():
    """The weights at first, and the losses."""
    sizes = {"V": 256, "T": LENGTH, "C": WIDTH, "H": HEADS, "L": LAYERS}
    before = {name: getattr(torch_gpt, name) for name in sizes}
    vars(torch_gpt).update(sizes)
    try:
        torch.manual_seed(0)
        net = torch_gpt.GPT().to(DEVICE)
        state = {own_key(k): v.detach().cpu().numpy().copy() for k, v in net.state_dict().items()}
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        losses = []
        for x, y in batches():
            optimizer.zero_grad()
            loss = net(torch.tensor(x, device=DEVICE), torch.tensor(y, device=DEVICE))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return state, np.array([float(v) for v in losses])
    finally:
        vars(torch_gpt).update(before)


def by_mica(state, low):
    net = mica.models.gpt2(256, LENGTH, WIDTH, LAYERS, HEADS)
    net.load_state_dict({k: mica.tensor(v) for k, v in state.items()})
    net.to(DEVICE)
    optimizer = mica.optim.AdamW(net.parameters(), lr=1e-3)

    @mica.compile
    def step(x, y):
        optimizer.zero_grad()
        with mica.autocast(DEVICE, dtype=mica.bfloat16, enabled=low):
            logits = net(x).reshape(-1, 256)
            loss = mica.nn.functional.cross_entropy(logits, y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(mica.tensor(x).to(DEVICE), mica.tensor(y).to(DEVICE)) for x, y in batches()]
    return np.array([v.item() for v in losses])


@pytest.fixture(scope="module")
def peer():
    return by_torch()


def smooth(losses):
    """Means of ten steps, whose noise both have in common."""
    return losses.reshape(-1, 10).mean(1)


@pytest.mark.parametrize("precision", ["float32", "autocast to bfloat16"])
def test_loss_curve(peer, precision):
    state, theirs = peer
    low = precision != "float32"
    ours = by_mica(state, low)
    apart = np.abs(smooth(ours) - smooth(theirs))
    print(f"{precision}: {theirs[0]:.4f} to {smooth(theirs)[-1]:.4f} and {smooth(ours)[-1]:.4f}, ")
    print(f"at most {apart.max():.4f} apart, {apart.mean():.4f} on average")
    assert theirs[-1] < theirs[0] - 0.3
    assert abs(ours[0] - theirs[0]) < (2e-2 if low else 1e-4)
    # Rounding moves two runs apart by so much; an error in a gradient by far more.
    assert apart.max() < 0.06
    assert apart.mean() < 0.02
