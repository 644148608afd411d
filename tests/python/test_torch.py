"""mica inside PyTorch, where torch is installed."""

import subprocess
import sys

import mica
import numpy as np
import pytest
from mica import interop


def test_nothing_imports_torch():
    code = "import sys, mica, mica.interop; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout == "False\n", done.stderr


torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def where(device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    return device


def test_tensors_without_copies(where):
    t = torch.arange(6.0, device=where).reshape(2, 3)
    m = interop.from_torch(t)
    assert m.data_ptr() == t.data_ptr() and m.shape == (2, 3) and str(m.device)[:4] == where[:4]
    m.add_(1)
    if where == "cuda":
        mica.cuda.synchronize()
    assert t.cpu().tolist() == [[1, 2, 3], [4, 5, 6]]
    back = interop.to_torch(m.t())
    assert back.data_ptr() == t.data_ptr() and back.stride() == (1, 3)
    leaf = torch.ones(2, device=where, requires_grad=True)
    assert not interop.from_torch(leaf).requires_grad
    for dtype in ("float64", "float16", "bfloat16", "int64", "int32", "uint8"):
        x = torch.ones(3, dtype=getattr(torch, dtype), device=where)
        y = interop.to_torch(interop.from_torch(x) + 1)
        assert y.dtype == x.dtype and y.cpu().tolist() == [2, 2, 2]


def test_streams_are_in_order(where):
    """Long work before a hand-over, and none of it is waited for by the host."""
    a = torch.randn(1024, 1024, device=where)
    t = a
    for _ in range(20):
        t = t @ a / 32
    m = interop.from_torch(t) * 2
    u = interop.to_torch(m @ m)
    want = (2 * t) @ (2 * t)
    torch.testing.assert_close(u, want, rtol=1e-3, atol=1e-3 * want.abs().max().item())


def test_one_stream(where):
    if where != "cuda":
        pytest.skip("streams are CUDA's")
    before = torch.cuda.current_stream().cuda_stream
    x = torch.randn(1 << 20, device="cuda")
    with interop.one_stream():
        assert torch.cuda.current_stream().cuda_stream == mica.cuda.current_stream().cuda_stream
        for _ in range(50):  # memory goes round at once, and nobody reads what another wrote
            y = interop.to_torch(interop.from_torch(x) * 2)
            x = (y + 1) / 3
    assert torch.cuda.current_stream().cuda_stream == before
    torch.testing.assert_close(x, torch.full_like(x, 1.0), rtol=0, atol=1e-4)


def net_of(where, dtype=mica.float32):
    mica.manual_seed(3)
    net = mica.nn.Sequential(
        mica.nn.Conv2d(3, 4, 3, padding=1), mica.nn.BatchNorm2d(4), mica.nn.ReLU(),
        mica.nn.Flatten(),
    )  # fmt: skip
    return net.to(device=where, dtype=dtype)


def torch_net_of(wrapped):
    """The same layers of torch with the same weights."""
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
        torch.nn.Flatten(),
    )  # fmt: skip
    first = next(wrapped.parameters())
    layers.to(device=first.device, dtype=first.dtype)
    state = {k: v.clone() for k, v in wrapped.state_dict().items()}
    layers.load_state_dict(state, strict=False)
    return layers


@pytest.mark.parametrize("compiled", [False, True])
def test_a_module_trains_like_torchs(where, compiled):
    wrapped = interop.TorchModule(net_of(where, mica.float64), compiled=compiled)
    theirs = torch_net_of(wrapped)
    assert {"0.weight", "0.bias", "1.weight", "1.running_mean"} <= set(wrapped.state_dict())
    torch.manual_seed(1)
    optimizers = [torch.optim.SGD(n.parameters(), lr=0.1, momentum=0.9) for n in (wrapped, theirs)]
    for _ in range(3):
        x = torch.randn(2, 3, 5, 5, dtype=torch.float64, device=where)
        losses, slopes = [], []
        for net, optimizer in zip((wrapped, theirs), optimizers, strict=True):
            own = x.clone().requires_grad_()
            loss = (net(own) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            slopes.append(own.grad)
        torch.testing.assert_close(losses[0], losses[1])
        torch.testing.assert_close(slopes[0], slopes[1])
    ours, want = wrapped.state_dict(), theirs.state_dict()
    for key in ("0.weight", "0.bias", "1.weight", "1.running_mean", "1.running_var"):
        torch.testing.assert_close(ours[key], want[key])
        inside = dict(wrapped.net.named_parameters()) | dict(wrapped.net.named_buffers())
        np.testing.assert_array_equal(inside[key].detach().cpu().numpy(), ours[key].cpu().numpy())
    wrapped.eval()
    theirs.eval()
    assert not wrapped.net.training
    with torch.no_grad():
        torch.testing.assert_close(wrapped(x), theirs(x))
        assert not wrapped(x).requires_grad


def test_gradcheck(where):
    wrapped = interop.TorchModule(net_of(where, mica.float64)).eval()
    x = torch.randn(2, 3, 4, 4, dtype=torch.float64, device=where, requires_grad=True)
    assert torch.autograd.gradcheck(wrapped, (x,))
    layer = interop.TorchModule(mica.nn.Linear(3, 2).to(device=where, dtype=mica.float64))
    y = torch.randn(4, 3, dtype=torch.float64, device=where, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y, *_: layer(y), (y, *layer.parameters()))
    (slope,) = torch.autograd.grad(layer(y).square().sum(), y, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def test_nothing_is_recorded_where_torch_records_nothing(where):
    layer = mica.nn.Linear(3, 2).to(where)
    seen = []

    class Watched(mica.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            y = self.layer(x)
            seen.append(y.requires_grad)
            return y

    wrapped = interop.TorchModule(Watched())
    x = torch.ones(1, 3, device=where, requires_grad=True)
    own = interop.torch_function(lambda x: (seen.append(mica.is_grad_enabled()), x * 2)[1])
    with torch.no_grad():
        assert not wrapped(x).requires_grad and not own(x).requires_grad
    with torch.inference_mode():
        wrapped(x)
    assert wrapped(x).requires_grad and own(x).requires_grad
    assert seen == [False, False, False, True, True]


@pytest.mark.parametrize("activation", [None, "relu", "silu"])
def test_the_fused_layer_is_torchs_three_with_a_residual(where, activation):
    """In f64: values, gradients of the images, the residual and all parameters, statistics."""
    mica.manual_seed(5)
    torch.manual_seed(5)
    net = mica.nn.ConvBnAct2d(3, 6, 3, padding=1, stride=2, bias=True, activation=activation)
    fused = interop.TorchModule(net).to(device=where, dtype=torch.float64)
    conv = torch.nn.Conv2d(3, 6, 3, padding=1, stride=2)
    theirs = torch.nn.ModuleDict({"conv": conv, "bn": torch.nn.BatchNorm2d(6)})
    theirs.to(device=where, dtype=torch.float64)
    with torch.no_grad():
        theirs["bn"].weight.uniform_(0.5, 1.5)
        theirs["bn"].bias.normal_()
        for key, t in fused.state_dict().items():
            t.copy_(theirs.state_dict()[key])
    act = {None: lambda y: y, "relu": torch.relu, "silu": torch.nn.functional.silu}[activation]

    def separate(x, residual):
        return act(theirs["bn"](theirs["conv"](x)) + residual)

    def random(*shape):
        return torch.randn(*shape, dtype=torch.float64, device=where)

    x, residual, cotangent = random(2, 3, 8, 8), random(2, 6, 4, 4), random(2, 6, 4, 4)
    for training in (True, False):
        fused.train(training), theirs.train(training)
        found = []
        for layer, net in ((fused, fused), (separate, theirs)):
            given = [x.clone().requires_grad_(), residual.clone().requires_grad_()]
            names, parameters = zip(*sorted(net.named_parameters()), strict=True)
            y = layer(*given)
            found.append([y, *torch.autograd.grad(y, [*given, *parameters], cotangent)])
        assert names == ("bn.bias", "bn.weight", "conv.bias", "conv.weight")
        for mine, want in zip(*found, strict=True):
            torch.testing.assert_close(mine, want, rtol=1e-11, atol=1e-11)
    for key in ("running_mean", "running_var"):
        torch.testing.assert_close(fused.state_dict()[f"bn.{key}"], getattr(theirs["bn"], key))


def test_functions(where):
    both = interop.torch_function(lambda x, k, y: (mica.tanh(x) * k + y, (x > 0)))
    x = torch.randn(5, dtype=torch.float64, device=where, requires_grad=True)
    y = torch.randn(5, dtype=torch.float64, device=where, requires_grad=True)
    value, mask = both(x, 3.0, y)
    torch.testing.assert_close(value, torch.tanh(x) * 3 + y)
    assert not mask.requires_grad and mask.tolist() == (x > 0).tolist()
    assert torch.autograd.gradcheck(lambda a, b: both(a, 3.0, b)[0], (x, y))
    frozen, _ = both(x.detach(), 1.0, y.detach())
    assert not frozen.requires_grad
    with pytest.raises(TypeError, match="expected tensors as results, got int"):
        interop.torch_function(lambda x: 3)(x)


def test_it_moves_and_freezes(where):
    wrapped = interop.TorchModule(mica.nn.Linear(3, 2))
    held = next(wrapped.parameters())
    wrapped.to(where).double()
    assert held is next(wrapped.parameters()) and held.dtype == torch.float64
    assert str(held.device)[:4] == where[:4] and wrapped.net.weight.dtype == mica.float64
    wrapped.net.weight.requires_grad_(True)
    held.requires_grad_(False)
    out = wrapped(torch.ones(1, 3, dtype=torch.float64, device=where))
    out.sum().backward()
    assert held.grad is None and wrapped.bias.grad.cpu().tolist() == [1, 1]
    with torch.no_grad():
        held.fill_(2)
    again = wrapped(torch.ones(1, 3, dtype=torch.float64, device=where)) - wrapped.bias
    assert again.detach().cpu().tolist() == [[6, 6]]
