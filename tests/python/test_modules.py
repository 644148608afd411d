"""What Module and its containers do, as PyTorch's users know it."""

import gc
import traceback
import weakref

import mica
import mica.nn.functional as F
import numpy as np
import pytest
from mica import nn


class Block(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.fc = nn.Linear(n, n)
        self.norm = nn.BatchNorm1d(n)

    def forward(self, x):
        return self.norm(self.fc(x)).relu()

    def extra_repr(self):
        return "block"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})
        self.scale = nn.ParameterList([mica.ones(4), mica.zeros(4)])

    def forward(self, x, head="a"):
        for block in self.blocks:
            x = block(x)
        return self.heads[head](x * self.scale[0] + self.scale[1])


def test_a_parameter_is_one_object():
    net = Net()
    w = net.blocks[0].fc.weight
    assert w is net.blocks[0].fc.weight is net.get_parameter("blocks.0.fc.weight")
    assert w is dict(net.named_parameters())["blocks.0.fc.weight"]
    assert w is net.state_dict(keep_vars=True)["blocks.0.fc.weight"]
    assert net.scale[0] is next(net.scale.parameters())
    # Their numbers tell them apart, though nobody holds the objects meanwhile.
    head = {id(p) for p in net.heads.parameters()}
    gc.collect()
    rest = [p for p in net.parameters() if id(p) not in head]
    assert len(head) == 4 and len(rest) == len(list(net.parameters())) - 4
    assert {*net.heads.parameters()} == {p for p in net.parameters() if id(p) in head}
    optimizer = mica.optim.SGD([{"params": rest}, {"params": net.heads.parameters()}], lr=0.1)
    assert optimizer.param_groups[0]["params"][0] is rest[0]
    assert isinstance(optimizer.param_groups[1]["params"][0], nn.Parameter)
    # Other memory, another dtype: the same parameter.
    net.to(mica.float64)
    net.load_state_dict(net.state_dict())
    assert w is net.blocks[0].fc.weight and w.dtype == mica.float64
    # One that two modules share, and one that takes another's place.
    net.heads["a"].weight = tied = nn.Parameter(mica.ones(2, 4))
    other = nn.Linear(4, 2)
    other.weight = net.heads["a"].weight
    assert other.weight is tied is net.heads["a"].weight
    assert tied in {*other.parameters()}


def test_a_parameter_keeps_its_class_and_is_let_go():
    class Noted(nn.Parameter):
        note = "mine"

    net = nn.Module()
    net.w = Noted(mica.ones(3))
    gc.collect()
    assert type(net.w) is Noted and net.w.note == "mine"
    # The module keeps the object, and nothing keeps it longer.
    gone = weakref.ref(net.w)
    net.w = nn.Parameter(mica.zeros(3))
    assert gone() is None
    gone = weakref.ref(net.w)
    del net.w
    assert gone() is None and not hasattr(net, "w")
    layer = nn.Linear(2, 2)
    gone, bias = weakref.ref(layer.weight), layer.bias
    del layer
    assert gone() is None and bias.shape == (2,)
    # Of two modules that share one, the one that is left keeps it.
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight
    first.weight.tag = "shared"
    del first
    gc.collect()
    assert second.weight.tag == "shared"
    # An object that was made another tensor stands for the parameter no longer.
    layer = nn.Linear(4, 1)
    with mica.no_grad():
        assert layer.weight.squeeze_().shape == (4,)
    assert layer.weight.shape == (1, 4) and layer.weight is next(layer.parameters())
    # Attributes of one's own stay, and do not keep a cycle.
    layer = nn.Linear(2, 2)
    layer.weight.no_decay = True
    layer.weight.owner = layer
    gc.collect()
    assert [hasattr(p, "no_decay") for p in layer.parameters()] == [True, False]
    gone = weakref.ref(layer)
    del layer
    gc.collect()
    assert gone() is None
    # A hook that holds its parameter is no leak.
    layer = nn.Linear(2, 2)
    layer.weight.register_hook(lambda g, of=layer.weight: None)
    held = weakref.ref(layer.weight)
    del layer
    gc.collect()
    assert held() is None
    with mica.no_grad():
        alone = nn.Parameter(mica.ones(2)).detach()
    assert alone.tolist() == [1, 1]


def test_named_modules_and_paths():
    net = Net()
    shared = nn.ReLU()
    net.first, net.second = shared, shared
    names = [name for name, _ in net.named_modules()]
    assert names[:5] == ["", "blocks", "blocks.0", "blocks.0.fc", "blocks.0.norm"]
    assert "first" in names and "second" not in names
    assert net.modules()[0] is net
    assert net.get_submodule("blocks.1.fc").out_features == 4
    assert net.get_submodule("") is net
    with pytest.raises(mica.Error, match="has no part 'x'"):
        net.get_submodule("blocks.x")
    assert len(net.parameters(recurse=False)) == 0
    assert [n for n, _ in net.blocks[0].norm.named_buffers()] == [
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]


def test_parameters_and_buffers_by_path():
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3)))
    weight = net.get_parameter("0.weight")
    assert isinstance(weight, nn.Parameter) and weight.data_ptr() == net[0].weight.data_ptr()
    assert net[0].get_parameter("bias").shape == (3,)
    buffer = net.get_buffer("1.0.running_mean")
    assert buffer.data_ptr() == net[1][0].running_mean.data_ptr()
    for find, path in (
        (net.get_parameter, "0.other"),
        (net.get_parameter, "1.0.running_mean"),
        (net.get_buffer, "0.weight"),
        (net.get_buffer, ""),
    ):
        with pytest.raises(AttributeError, match=r"has no (parameter|buffer)"):
            find(path)
    with pytest.raises(mica.Error, match="has no part '2'"):
        net.get_parameter("2.weight")


def test_parameters_as_a_vector(device):
    net = nn.Sequential(nn.Linear(2, 3), nn.PReLU()).to(device)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (10,)
    np.testing.assert_array_equal(
        vector.detach().cpu().numpy(),
        np.concatenate([p.detach().cpu().numpy().ravel() for p in net.parameters()]),
    )
    vector.sum().backward()
    assert (net[0].weight.grad == 1).all()
    nn.utils.vector_to_parameters(mica.arange(10.0, device=device), net.parameters())
    assert net[0].weight.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert net[0].bias.tolist() == [6, 7, 8] and net[1].weight.item() == 9
    assert net[0].weight.requires_grad and net[0].weight.is_leaf
    with pytest.raises(ValueError, match=r"vec must be \(10\)"):
        nn.utils.vector_to_parameters(mica.zeros(9, device=device), net.parameters())


def test_containers_are_lists_and_dictionaries():
    net = Net()
    assert len(net.blocks) == 2 and list(net.blocks)[1] is net.blocks[-1]
    assert net(mica.rand(5, 4)).shape == (5, 2) and net(mica.rand(5, 4), head="b").shape == (5, 3)
    assert "a" in net.heads and list(net.heads) == ["a", "b"] and len(net.heads.items()) == 2
    net.heads["a"] = nn.Linear(4, 7)
    assert list(net.heads.keys()) == ["a", "b"] and net(mica.rand(5, 4)).shape == (5, 7)
    del net.heads["b"]
    with pytest.raises(KeyError):
        net.heads["b"]
    stack = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    stack[2] = nn.Linear(4, 5)
    assert stack(mica.rand(1, 4)).shape == (1, 5)
    assert stack[:2][0] is stack[0] and len(stack[:2]) == 2
    named = nn.Sequential({"first": nn.Linear(2, 2), "second": nn.ReLU()})
    assert list(named.state_dict()) == ["first.weight", "first.bias"]
    assert named.first is named[0]
    made_in_cpp = mica.models.lenet()
    made_in_cpp[-1] = nn.Linear(500, 3)
    assert made_in_cpp(mica.rand(1, 1, 28, 28)).shape == (1, 3)
    with pytest.raises(mica.Unsupported, match="ModuleList"):
        nn.Sequential(nn.ModuleList())(mica.ones(1))
    values = nn.ParameterDict({"w": mica.ones(2)})
    values["w"] = mica.zeros(2)
    assert values["w"].sum().item() == 0 and list(values) == ["w"]


def test_replacing_keeps_the_order():
    net = Block()
    net.fc = nn.Linear(4, 4, bias=False)
    assert [n for n, _ in net.named_children()] == ["fc", "norm"]
    a, b = nn.Linear(3, 4), nn.Linear(3, 4)
    b.weight = a.weight
    assert [n for n, _ in b.named_parameters()] == ["weight", "bias"]
    tied = nn.Sequential(a, b)
    assert len(tied.parameters()) == 3 and len(tied.state_dict()) == 4
    (a(mica.ones(1, 3)) + b(mica.ones(1, 3))).sum().backward()
    np.testing.assert_array_equal(a.weight.grad.numpy(), 2 * np.ones((4, 3)))
    a.weight = nn.Parameter(mica.ones(2, 3))  # of another shape, as PyTorch's programs do
    assert a.weight.shape == (2, 3) and b.weight.shape == (4, 3)


def test_a_module_is_no_part_of_itself():
    block = Block()
    with pytest.raises(mica.Error, match="part of itself"):
        block.fc = block
    with pytest.raises(mica.Error, match="part of itself"):
        block.inner = nn.Sequential(block)
    assert isinstance(block.fc, nn.Linear)


def test_load_state_dict_that_does_not_fit():
    net = Block()
    state = {name: t.clone() for name, t in net.state_dict().items()}
    state["other"] = mica.ones(1)
    del state["fc.bias"]
    with mica.no_grad():
        state["fc.weight"].fill_(3)
    with pytest.raises(mica.Error):
        net.load_state_dict(state)
    keys = net.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["fc.bias"] and keys.unexpected_keys == ["other"]
    assert net.fc.weight.sum().item() == 48
    assert net.load_state_dict(net.state_dict()).missing_keys == []


def test_dtypes_apply_and_reset(device):
    net = Net().to(device)
    assert net.to(mica.float64) is net and net.blocks[0].fc.weight.dtype is mica.float64
    assert net.double().float().heads["a"].weight.dtype is mica.float32
    net.to(device=device, dtype="float64")
    assert net(mica.rand(3, 4, dtype="float64", device=device)).dtype is mica.float64
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen[0] == "Linear" and seen[-1] == "Net"

    def start(module):
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 0.5)
            nn.init.zeros_(module.bias)

    net.apply(start)
    assert net.heads["a"].weight.cpu().sum().item() == 4
    net.reset_parameters()
    assert net.heads["a"].weight.cpu().sum().item() != 4
    net.freeze("heads.a")
    assert not net.heads["a"].weight.requires_grad and net.heads["b"].weight.requires_grad


def test_repr_is_a_tree():
    class Wide(nn.Linear):
        pass

    text = repr(nn.Sequential(Block(), Wide(4, 2), nn.CrossEntropyLoss(label_smoothing=0.1)))
    assert text.splitlines()[:3] == [
        "Sequential(",
        "  (0): Block(",
        "    (fc): Linear(in=4, out=4)",
    ]
    assert "(1): Wide(in=4, out=2)" in text
    assert "CrossEntropyLoss(ignore_index=-100, reduction='mean', label_smoothing=0.1)" in text
    assert repr(nn.ParameterList([mica.ones(2)])) == "ParameterList((2,))"


def test_summary_sees_into_python(device):
    net = nn.Sequential(Block(), nn.Linear(4, 2)).to(device)
    rows = nn.summary(net, (5, 4)).rows
    assert [(r.name, r.type, r.output) for r in rows] == [
        ("0.fc", "Linear", (5, 4)),
        ("0.norm", "BatchNorm1d", (5, 4)),
        ("1", "Linear", (5, 2)),
    ]
    assert nn.summary(net, (5, 4)).parameters == 16 + 4 + 8 + 10


def test_errors_keep_their_traceback():
    class Broken(nn.Module):
        def forward(self, x):
            return self.helper(x)

        def helper(self, x):
            raise LookupError("in helper")

    with pytest.raises(LookupError) as e:
        nn.Sequential(nn.Identity(), nn.Sequential(Broken()))(mica.ones(1))
    assert [f.name for f in traceback.extract_tb(e.value.__traceback__)][-2:] == [
        "forward",
        "helper",
    ]


def collected(make):
    gone = weakref.ref(make())
    gc.collect()
    return gone() is None


def test_cycles_are_collected():
    def closure():
        net = Block()
        net.again = lambda: net
        return net

    def part_knows_whole():
        net = nn.Sequential(Block(), nn.Linear(4, 4))
        net[0].whole = (net,)  # a module itself would be a member
        return net[0]

    def compiled():
        net = Block()
        net.step = mica.compile(lambda x: net(x).detach())
        net.step(mica.ones(2, 4))
        return net

    def optimizer_in_module():
        net = Block()
        net.optimizer = mica.optim.SGD(net.parameters(), lr=0.1)
        net(mica.ones(2, 4)).sum().backward()
        net.optimizer.step()
        return net

    for make in (closure, part_knows_whole, compiled, optimizer_in_module):
        assert collected(make), make.__name__


def test_init(device):
    w = mica.empty(200, 100, device=device)
    assert nn.init.fans((8, 4, 3, 3)) == (36, 72)
    assert nn.init.uniform_(w, -1, 1) is not None
    for fill, low, high in [
        (lambda: nn.init.normal_(w, 1, 2), 1.9, 2.1),
        (lambda: nn.init.xavier_uniform_(w), 0.079, 0.085),
        (lambda: nn.init.xavier_normal_(w, gain=2), 0.155, 0.172),
        (lambda: nn.init.kaiming_normal_(w, nonlinearity="relu"), 0.138, 0.145),
        (lambda: nn.init.kaiming_uniform_(w, a=5**0.5, mode="fan_out"), 0.039, 0.043),
        (lambda: nn.init.trunc_normal_(w, std=0.5, a=-0.5, b=0.5), 0.25, 0.29),
    ]:
        fill()
        assert low < w.cpu().numpy().std() < high
    nn.init.orthogonal_(w)
    array = w.cpu().numpy()
    np.testing.assert_allclose(array.T @ array, np.eye(100), atol=1e-4)
    assert (nn.init.eye_(w).cpu().numpy() == np.eye(200, 100)).all()
    kernel = nn.init.dirac_(mica.empty(4, 2, 3, 3, device=device), groups=2)
    x = mica.rand(1, 4, 5, 6, device=device)
    assert (F.conv2d(x, kernel, padding=1, groups=2) == x).all()
    assert nn.init.calculate_gain("relu") == pytest.approx(2**0.5)
    with pytest.raises(mica.Error, match="nonlinearity"):
        nn.init.kaiming_normal_(w, nonlinearity="swish")


def test_losses_are_modules(device):
    logits = mica.randn(6, 3, device=device)
    target = mica.tensor([0, 1, 2, 0, 1, 2], device=device)
    weight = mica.tensor([1.0, 2.0, 3.0])
    loss = nn.CrossEntropyLoss(weight, label_smoothing=0.1).to(device)
    assert list(loss.state_dict()) == ["weight"]
    expected = F.cross_entropy(logits, target, weight.to(device), label_smoothing=0.1)
    assert loss(logits, target).item() == expected.item()
    a, b = logits, mica.randn(6, 3, device=device)
    for module, inputs in [
        (nn.MSELoss(reduction="sum"), (a, b)),
        (nn.L1Loss(), (a, b)),
        (nn.SmoothL1Loss(beta=0.5), (a, b)),
        (nn.HuberLoss(delta=2), (a, b)),
        (nn.BCEWithLogitsLoss(), (a, b.sigmoid())),
        (nn.BCELoss(), (a.sigmoid(), b.sigmoid())),
        (nn.NLLLoss(), (F.log_softmax(a, 1), target)),
        (nn.KLDivLoss(reduction="batchmean"), (F.log_softmax(a, 1), F.softmax(b, 1))),
        (nn.SoftMarginLoss(), (a, b.sign())),
        (nn.HingeEmbeddingLoss(), (a, b.sign())),
        (nn.CosineEmbeddingLoss(), (a, b, b[:, 0].sign())),
        (nn.MarginRankingLoss(margin=0.1), (a, b, b.sign())),
        (nn.TripletMarginLoss(), (a, b, a * 2)),
    ]:
        assert np.isfinite(module(*inputs).item()), module
    assert nn.CosineSimilarity()(a, b).shape == (6,)
