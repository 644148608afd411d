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


@pytest.mark.parametrize(("precision", "wanted"), [("low", "bfloat16"), ("f32", "float32")])
def test_functions_compute_in_their_precision(precision, wanted, device):
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
                if case.name != "einsum":  # which need not have a product
                    assert str(result).endswith(wanted), (key, place, result)
        seen.add(case.name)
    assert len(seen) > {"low": 8, "f32": 30}[precision], seen


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
    other = mica.amp.GradScaler(device, growth_factor=3.0, backoff_factor=0.25, growth_interval=9)
    other.load_state_dict(state)  # the options too
    assert other.state_dict() == state
    assert mica.amp.GradScaler(device, enabled=False).state_dict() == {}
    with pytest.raises(mica.Error, match='the state has no "scale"'):
        other.load_state_dict({})


@pytest.mark.parametrize("compiled", [False, True])
def test_options_of_a_scaler_change_between_steps(compiled, device):
    _, _, scaler, step = make(device, 8.0)
    run_step = mica.compile(step) if compiled else step
    x, y = mica.rand(4, 8, device=device), mica.tensor([0, 1, 2, 0], device=device)
    run_step(x, y)
    assert scaler.get_growth_interval() == 2 and scaler.get_growth_factor() == 2.0
    scaler.set_growth_interval(1)
    scaler.set_growth_factor(4.0)
    run_step(x, y)
    assert scaler.get_scale() == 32.0
    scaler.set_backoff_factor(0.25)
    run_step(x * float("inf"), y)
    assert scaler.get_scale() == 8.0 and scaler.get_backoff_factor() == 0.25
    with pytest.raises(mica.Error, match="backoff_factor must be between 0 and 1, got 2"):
        scaler.set_backoff_factor(2.0)


def test_losses_are_scaled_together(device):
    scaler = mica.amp.GradScaler(device, init_scale=8.0)
    one, (two, more) = scaler.scale([mica.ones((), device=device), (mica.ones(2), mica.zeros(1))])
    assert one.item() == 8 and two.tolist() == [8, 8] and more.tolist() == [0]


def test_what_takes_several_tensors_takes_them_in_the_widest_dtype(device):
    a = mica.ones(2, device=device)
    with mica.autocast(device, dtype=mica.bfloat16):
        assert mica.cat([a.bfloat16(), a]).dtype == mica.float32
        assert mica.cat([a.bfloat16(), a.bfloat16()]).dtype == mica.bfloat16


def test_a_function_of_ones_own(device):
    class Product(mica.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx, g):
            assert not mica.is_autocast_enabled(device)
            x, w = ctx.saved_tensors
            return g.float() @ w.t(), x.t() @ g.float()

    x = mica.ones(2, 2, device=device).requires_grad_()
    w = mica.ones(2, 2, device=device).requires_grad_()
    with mica.autocast(device, dtype=mica.bfloat16):
        y = Product.apply(x, w)
        assert y.dtype == mica.bfloat16
        y.sum().backward()
    assert x.grad.dtype == mica.float32
    assert x.grad.tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("cast_inputs", [None, "float32"])
def test_decorators_of_functions_of_ones_own(device, cast_inputs):
    wanted = mica.float32 if cast_inputs else mica.bfloat16
    seen = []

    class Product(mica.autograd.Function):
        @staticmethod
        @mica.amp.custom_fwd(device_type=device, cast_inputs=cast_inputs and mica.float32)
        def forward(ctx, x, weights):
            ctx.save_for_backward(x, *weights)
            seen.append((x @ weights[0]).dtype)
            return x @ weights[0]

        @staticmethod
        @mica.amp.custom_bwd(device_type=device)
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            seen.append((g @ w.t()).dtype)
            return (g @ w.t()).to(x.dtype), None

    x = mica.ones(2, 2, device=device).requires_grad_()
    with mica.autocast(device, dtype=mica.bfloat16):
        y = Product.apply(x, [mica.ones(2, 2, device=device)])
    y.sum().backward()
    assert seen == [wanted, wanted] and y.dtype == wanted
    assert x.grad.tolist() == [[2, 2], [2, 2]]
    assert Product.apply(x, [mica.ones(2, 2, device=device)]).dtype == mica.float32


def test_second_order(device):
    def penalty(automatic):
        a = mica.tensor([[0.1, 0.2], [0.3, 0.4]], device=device).requires_grad_()
        if automatic:
            with mica.autocast(device, dtype=mica.bfloat16):
                y = (a @ a).float().tanh().sum()
        else:
            low = a.bfloat16()
            y = (low @ low).float().tanh().sum()
        (slope,) = mica.grad(y, [a], create_graph=True)
        return mica.grad((slope * slope).sum(), [a])[0].tolist()

    assert penalty(True) == penalty(False)
    assert penalty(True) != [[0, 0], [0, 0]]
