"""mica.autocast and mica.amp, by PyTorch's names."""

import mica
import numpy as np
import pytest
from mica import nn
from op_calls import run
from op_cases import CASES


def test_a_region_and_a_decorator(device):
    x = mica.rand(4, 4, device=device)
    with mica.autocast(device, dtype=mica.bfloat16) as region:
        assert (x @ x).dtype == mica.bfloat16
        assert mica.is_autocast_enabled(device)
        assert mica.get_autocast_dtype(device) == mica.bfloat16
        with region:  # again, inside itself
            assert (x @ x).dtype == mica.bfloat16
        with mica.autocast(device, enabled=False):
            assert (x @ x).dtype == mica.float32
        assert (x @ x).dtype == mica.bfloat16
    assert not mica.is_autocast_enabled(device)
    assert (x @ x).dtype == mica.float32

    @mica.autocast(device_type=device, dtype=mica.float16)
    def product(a):
        return a @ a

    assert product(x).dtype == mica.float16
    assert mica.get_autocast_dtype("cuda") == mica.float16
    assert mica.get_autocast_dtype("cpu") == mica.bfloat16
    with pytest.raises(mica.DTypeError, match="expected f16 or bf16, got f32"):
        mica.autocast(device, dtype=mica.float32)


def test_a_region_ends_with_an_exception(device):
    with pytest.raises(ValueError, match="inside"), mica.autocast(device, mica.bfloat16):
        raise ValueError("inside")
    assert not mica.is_autocast_enabled(device)


@pytest.mark.parametrize("precision", ["low", "f32", "widest"])
def test_functions_compute_in_their_precision(precision, device):
    functions = {
        name
        for f in mica._mica._functions()
        if f["precision"] == precision
        for name in (f["name"], *f["second_names"])
    }
    seen = set()
    for key, case in CASES.items():
        if case.name not in functions or case.name.endswith("_") or "dtype" in case.keywords:
            continue
        given = "float32" if precision == "low" else "bfloat16"
        with mica.autocast(device, dtype=mica.bfloat16):
            for place, _, dtypes in run(mica, key, case, given, device):
                result = dtypes[0]
                if "float" not in str(result):
                    continue
                wanted = {"low": "bfloat16", "f32": "float32"}.get(precision)
                if wanted and case.name != "einsum":  # which need not have a product
                    assert str(result).endswith(wanted), (key, place, result)
        seen.add(case.name)
    assert len(seen) > {"low": 8, "f32": 30, "widest": 2}[precision], seen


def make(device, scale=2.0**16):
    mica.manual_seed(2)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
    optimizer = mica.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scaler = mica.amp.GradScaler(device, init_scale=scale, growth_interval=2)

    def step(x, y):
        optimizer.zero_grad()
        with mica.autocast(device, dtype=mica.float16):
            loss = nn.functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    return net, optimizer, scaler, step


@pytest.mark.parametrize("compiled", [False, True])
def test_a_training_loop_as_in_pytorch(compiled, device, rng):
    net, optimizer, scaler, step = make(device)
    run_step = mica.compile(step) if compiled else step
    x = mica.tensor(rng.standard_normal((16, 8)), dtype=mica.float32, device=device)
    y = mica.tensor(rng.integers(0, 3, 16), device=device)
    losses = [run_step(x, y).item() for _ in range(4)]
    assert losses[-1] < losses[0]
    assert scaler.get_scale() == 2.0**18  # grew twice
    before = [p.detach().cpu().numpy().copy() for p in net.parameters()]
    run_step(x * float("inf"), y)
    assert scaler.get_scale() == 2.0**17
    assert optimizer.steps == 4
    for p, b in zip(net.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().cpu().numpy(), b)


def test_the_state_of_a_scaler(device, rng):
    _, _, scaler, step = make(device, 8.0)
    x = mica.rand(4, 8, device=device)
    y = mica.tensor([0, 1, 2, 0], device=device)
    for _ in range(3):
        step(x, y)
    state = scaler.state_dict()
    assert state == {
        "scale": 16.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2,
        "_growth_tracker": 1,
    }
    other = mica.amp.GradScaler(device)
    other.load_state_dict(state)
    assert other.state_dict()["scale"] == 16.0
    assert other.state_dict()["_growth_tracker"] == 1
    assert mica.amp.GradScaler(device, enabled=False).state_dict() == {}
    with pytest.raises(mica.Error, match='the state has no "scale"'):
        other.load_state_dict({})
