"""mica inside PyTorch, where torch is installed."""

import copy
import gc
import io
import math
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


def test_second_derivatives(where):
    """Through a module, its parameters among them, and through a function."""
    layer = interop.TorchModule(
        mica.nn.Sequential(mica.nn.Linear(3, 4), mica.nn.Tanh(), mica.nn.Linear(4, 2)).to(
            device=where, dtype=mica.float64
        )
    )
    x = torch.randn(5, 3, dtype=torch.float64, device=where, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x, *_: layer(x), (x, *layer.parameters()))
    both = interop.torch_function(lambda x, y: (mica.sin(x) * y, x.square()))
    y = torch.randn(5, 3, dtype=torch.float64, device=where, requires_grad=True)
    assert torch.autograd.gradgradcheck(both, (x, y))
    # A penalty on the gradient, as some programs train with, beside torch's own layers.
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    theirs.to(device=where, dtype=torch.float64)
    theirs.load_state_dict(layer.state_dict())
    found = []
    for net in (layer, theirs):
        (slope,) = torch.autograd.grad(net(x).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), list(net.parameters())[:3]))
    for ours, want in zip(*found, strict=True):
        torch.testing.assert_close(ours, want)
    # In either order, and one without the other.
    z = both(x, y)[0].sum()
    (slope,) = torch.autograd.grad(z, x, create_graph=True)
    z.backward()
    slope.sum().backward()
    torch.testing.assert_close(y.grad, torch.sin(x).detach() + torch.cos(x).detach())


def test_what_torch_writes_to_is_not_used_for_a_gradient(where):
    layer = interop.TorchModule(mica.nn.Linear(3, 2).to(where))
    x = torch.ones(1, 3, device=where)

    def between(change):
        own = x.clone().requires_grad_()
        given = own * 1
        y = layer(given)
        with torch.no_grad():
            change(given, y)
        y.sum().backward()

    modified = pytest.raises(mica.Error, match="modified")
    with modified:  # the gradient of the weight needs the input
        between(lambda given, y: given.add_(1))
    with modified:  # and that of the input the weight
        between(lambda given, y: layer.weight.add_(1))
    between(lambda given, y: layer.bias.add_(1))  # which no gradient needs
    between(lambda given, y: y.relu_())
    squash = interop.torch_function(mica.sigmoid)
    y = squash(x.clone().requires_grad_())
    y.mul_(2)
    with modified:  # sigmoid's gradient needs the result
        y.sum().backward()
    # A call after the write is right, whatever became of those before.
    own = x.clone().requires_grad_()
    layer(own).sum().backward()
    torch.testing.assert_close(own.grad, layer.weight.detach().sum(0, keepdim=True))


@pytest.mark.parametrize("compiled", [False, True])
def test_parameters_that_are_given_other_memory(where, compiled):
    layer = interop.TorchModule(mica.nn.Linear(2, 1).to(where), compiled=compiled)
    x = torch.ones(1, 2, device=where)

    def expect(want):
        y = layer(x)
        assert y.item() == want
        y.backward()
        assert layer.weight.grad.tolist() == [[1, 1]]
        layer.zero_grad()

    with torch.no_grad():
        layer.weight.fill_(3), layer.bias.fill_(1)
    expect(7)
    layer.weight.data = layer.weight.data.clamp(-2, 2)
    expect(5)
    state = {"weight": torch.full((1, 2), 4.0), "bias": torch.zeros(1)}
    layer.load_state_dict({k: v.to(where) for k, v in state.items()}, assign=True)
    expect(8)
    with torch.no_grad():
        layer.weight.fill_(5)
    expect(10)
    layer.net.weight.data = mica.full((1, 2), 6.0, device=where)
    expect(12)
    assert layer.weight.tolist() == [[6, 6]]
    other = {"weight": torch.full((1, 2), 0.5, device=where, requires_grad=True)}
    y = torch.func.functional_call(layer, other, (x,))
    assert y.item() == 1 and torch.autograd.grad(y, other["weight"])[0].tolist() == [[1, 1]]
    expect(12)


def test_parameters_of_several_names_are_one(where):
    net = mica.nn.Sequential(mica.nn.Linear(2, 2), mica.nn.Linear(2, 2)).to(where)
    net[1].weight = net[0].weight
    wrapped = interop.TorchModule(net)
    assert len(list(wrapped.parameters())) == 3
    x = torch.ones(1, 2, device=where)
    wrapped(x).sum().backward()
    first = wrapped.get_parameter("0.weight")
    first.data = torch.eye(2, device=where)
    with torch.no_grad():
        for name, p in wrapped.named_parameters():
            if name.endswith("bias"):
                p.zero_()
    assert wrapped(x).tolist() == [[1, 1]]


def test_copies_and_pickles(where):
    net = net_of(where, mica.float64)
    net[1].eval()  # a frozen batch norm stays one
    wrapped = interop.TorchModule(net)
    assert not net[1].training and wrapped.training
    wrapped.get_parameter("0.bias").requires_grad_(False)
    x = torch.randn(2, 3, 5, 5, dtype=torch.float64, device=where)
    want = wrapped(x)
    file = io.BytesIO()
    torch.save(wrapped, file)
    file.seek(0)
    for other in (copy.deepcopy(wrapped), torch.load(file, weights_only=False)):
        assert torch.equal(other(x), want)
        assert {k: p.requires_grad for k, p in other.named_parameters()} == {
            k: p.requires_grad for k, p in wrapped.named_parameters()
        }
        with torch.no_grad():
            next(other.parameters()).zero_()
        assert torch.equal(wrapped(x), want) and not torch.equal(other(x), want)


def test_torchs_autocast_is_micas_inside(where):
    wrapped = interop.TorchModule(mica.nn.Linear(8, 4).to(where))
    x = torch.randn(3, 8, device=where)
    with torch.autocast(where, dtype=torch.bfloat16):
        y = wrapped(x)
    assert y.dtype == torch.bfloat16 and wrapped(x).dtype == torch.float32
    torch.testing.assert_close(y.float(), wrapped(x), rtol=2e-2, atol=2e-2)
    y.float().sum().backward()
    assert wrapped.weight.grad.dtype == torch.float32
    want = x.sum(0).expand(4, 8)
    torch.testing.assert_close(wrapped.weight.grad, want, rtol=2e-2, atol=2e-2)


def test_backward_frees_what_it_kept():
    """As torch's own layers do, so that a loss that is kept keeps no activations."""
    function = interop.torch_function(lambda x, k: mica.exp(x * k))
    x, array = torch.ones(3, dtype=torch.float64, requires_grad=True), np.ones(3)
    before = sys.getrefcount(array)
    y = function(x, torch.from_numpy(array)).sum()
    y.backward(retain_graph=True)
    assert sys.getrefcount(array) > before
    y.backward()
    gc.collect()
    assert sys.getrefcount(array) == before
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 2 * math.e))


def test_torch_compile_leaves_it_as_it_is(where):
    wrapped = interop.TorchModule(mica.nn.Linear(4, 2).to(where))
    before = torch.nn.Linear(4, 4).to(where)
    both = torch.nn.Sequential(before, torch.nn.Tanh(), wrapped)
    compiled = torch.compile(both, backend="eager")
    x = torch.randn(3, 4, device=where)
    torch.testing.assert_close(compiled(x), both(x))
    compiled(x).sum().backward()
    assert before.weight.grad is not None and wrapped.weight.grad is not None


def test_complex_tensors(where):
    if where == "cuda":
        pytest.skip("the same code as on the CPU")
    function = interop.torch_function(lambda z: z * z.conj() * (1 + 2j))
    z = torch.randn(4, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(function, (z,))
    with pytest.raises((BufferError, RuntimeError), match="conj"):
        interop.from_torch(z.detach().conj())
