"""PyTorch's programs as they are: python -m mica.as_torch."""

import os
import subprocess
import sys

import mica
import pytest

PROGRAM = """
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Rows(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=3, padding=1, padding_mode="reflect")
        self.drop = nn.Dropout(0.0)
        self.fc = nn.Linear(4 * 4 * 4, 2, device="cpu", dtype=torch.float)
        self.register_buffer("scale", torch.ones(1), persistent=False)
        self.fc.tag = "head"

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return F.log_softmax(self.fc(self.drop(torch.flatten(x, 1))) * self.scale, dim=1)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(3)
use_cuda = torch.cuda.is_available() and False
device = torch.device("cuda" if use_cuda else "cpu")
y = torch.LongTensor([i % 2 for i in range(64)])
x = torch.randn(64, 1, 8, 8, generator=torch.Generator().manual_seed(1)) + y.view(-1, 1, 1, 1)
loader = DataLoader(Rows(x, y), batch_size=16, shuffle=True, num_workers=0, pin_memory=use_cuda)
net = Net().to(device, non_blocking=True)
assert next(net.parameters()).is_cpu and "scale" not in net.state_dict()
optimizer = optim.Adam(net.parameters(), lr=0.05)
scheduler = StepLR(optimizer, step_size=1, gamma=0.9)
losses = []
for epoch in range(args.epochs):
    net.train()
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad(set_to_none=True)
        loss = F.nll_loss(net(data), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    scheduler.step()
net.eval()
with torch.no_grad():
    correct = net(x).argmax(axis=1, keepdims=True).eq(y.view(-1, 1)).sum(dtype=torch.float).item()
torch.save(net, "net.pt")
again = torch.load("net.pt")
assert again.fc.tag == "head" and torch.equal(again(x), net(x))
torch.save({"net": net.state_dict(), "epoch": args.epochs}, "state.pt")
net.load_state_dict(torch.load("state.pt")["net"])
print(f"first {losses[0]:.4f} last {losses[-1]:.4f} correct {int(correct)}")
"""


def run(folder, text, *arguments, report=False, before=()):
    (folder / "program.py").write_text(text)
    flags = ["--report", *before] if report else list(before)
    return subprocess.run(
        [sys.executable, "-m", "mica.as_torch", *flags, "program.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(mica.__file__))},
        timeout=120,
    )


def test_a_program_trains_saves_and_loads(tmp_path):
    done = run(tmp_path, PROGRAM, "--epochs", "3")
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert float(words[3]) < float(words[1]) and int(words[5]) >= 58


def test_a_missing_name_is_named(tmp_path):
    done = run(tmp_path, "import torch\ntorch.nn.functional.grid_of_dreams(1)\n")
    assert done.returncode == 1
    assert "nothing that stands for torch.nn.functional.grid_of_dreams" in done.stderr
    done = run(tmp_path, "from torch.somewhere import thing\n")
    assert "No module named 'torch.somewhere'" in done.stderr


def test_the_report_lists_what_is_missing_and_runs_nothing(tmp_path):
    program = (
        "import torch.nn as nn\nfrom torch import Tensor, mtia as f\nimport torch\n"
        "print('ran')\nx = nn.Linear(1, 2)\ny = nn.Unknown(3)\n"
        "def g(t: Tensor):\n    return torch.mtia.mm(torch.no_such(t))\nnn.Module.no_such\n"
    )
    done = run(tmp_path, program, report=True)
    assert done.returncode == 1 and "ran" not in done.stdout
    found = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert found == ["torch.mtia", "torch.mtia.mm", "torch.nn.Module.no_such", "torch.nn.Unknown",
                     "torch.no_such"]  # fmt: skip
    assert "program.py:6" in done.stdout
    done = run(tmp_path, PROGRAM, report=True)
    assert done.returncode == 0 and "every name" in done.stdout


def test_only_the_command_puts_mica_in_torchs_place():
    code = (
        "import sys, mica\n"
        "assert not any(name.startswith('mica.as_torch') for name in sys.modules)\n"
        "assert not any('as_torch' in type(f).__module__ for f in sys.meta_path)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_torch_itself_is_not_replaced_when_it_is_there_already():
    code = (
        "import sys, types\nsys.modules['torch'] = types.ModuleType('torch')\n"
        "from mica import as_torch\nas_torch.install()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "torch was imported before" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "from torch.distributions import Categorical, Normal, kl_divergence\n"
        "import torch\n"
        "d = Categorical(logits=torch.zeros(3, 4))\n"
        "assert d.sample((2,)).shape == (2, 3)\n"
        "assert torch.allclose(d.log_prob(torch.zeros(3).long()), torch.full((3,), -1.3862944))\n"
        "n = Normal(torch.zeros(2), 2.0)\n"
        "assert torch.allclose(kl_divergence(n, n), torch.zeros(2))\n",
        "import torch\nfrom torch.utils.checkpoint import checkpoint\n"
        "w = torch.ones(3, requires_grad=True)\n"
        "checkpoint(lambda t: (t * w).sin(), torch.ones(3), use_reentrant=False).sum().backward()\n"
        "assert torch.allclose(w.grad, torch.full((3,), 1.0).cos())\n",
        "import torch\nnet = torch.compile(torch.nn.Linear(3, 2))\n"
        "assert list(net.state_dict()) == ['_orig_mod.weight', '_orig_mod.bias']\n"
        "net(torch.ones(1, 3)).sum().backward()\nassert net._orig_mod.weight.grad is not None\n"
        "assert net.in_features == 3\n",
        "import torch, torch.backends.cudnn as cudnn\n"
        "cudnn.benchmark = False\ncudnn.deterministic = True\n"
        "assert torch.are_deterministic_algorithms_enabled()\n"
        "torch.backends.cuda.matmul.allow_tf32 = True\nassert torch.backends.cudnn.allow_tf32\n",
    ],
    ids=["distributions", "checkpoint", "compile", "backends"],
)
def test_modules_of_torch(tmp_path, text):
    done = run(tmp_path, text)
    assert done.returncode == 0, done.stderr


OWN_OPTIMIZER = """
import torch


class Signed(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1, momentum=0.5):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "buffer" not in state:
                    state["buffer"] = torch.zeros_like(p)
                state["buffer"].mul_(group["momentum"]).add_(p.grad)
                p.add_(state["buffer"].sign(), alpha=-group["lr"])


net = torch.nn.Linear(2, 1).cuda()
with torch.no_grad():
    net.weight.fill_(1.0)
optimizer = Signed(net.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
assert isinstance(optimizer, torch.optim.Optimizer)
x = torch.ones(1, 2, device="cuda:0")
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
start.record()
for _ in range(2):
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
    scheduler.step()
end.record()
torch.cuda.synchronize()
state = optimizer.state_dict()
optimizer.load_state_dict(state)
print(f"{net.weight[0, 0].item():.3f} {optimizer.param_groups[0]['lr']:.3f} {len(state['state'])}")
print(x.device, start.elapsed_time(end) >= 0)
"""


def test_cuda_may_stand_for_the_cpu_and_optimizers_have_a_step_of_their_own(tmp_path):
    done = run(tmp_path, OWN_OPTIMIZER, before=("--on", "cpu"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0.850", "0.025", "2", "cpu", "True"]


# A state after three steps, as PyTorch 2.15 gave it, and where its parameter was after two more.
STATES = {
    "SGD": (
        "momentum=0.9, weight_decay=0.01, dampening=0.3",
        [0.33811241388320923, 0.3558520972728729, -0.28177157044410706],
        {"momentum_buffer": [3.3513662815093994, -9.915467262268066, 2.5378379821777344]},
        [0.07919412851333618, 0.8776388168334961, -0.32601025700569153],
    ),
    "AdamW": (
        "amsgrad=True",
        [0.7487151026725769, -1.7456085681915283, 0.25200513005256653],
        {
            "step": 3.0,
            "exp_avg": [0.48352381587028503, -2.0497891902923584, 0.6389086842536926],
            "exp_avg_sq": [0.009772107005119324, 0.17307843267917633, 0.01796831004321575],
            "max_exp_avg_sq": [0.009772107005119324, 0.17307843267917633, 0.01796831004321575],
        },
        [0.6747848987579346, -1.6699395179748535, 0.1822010576725006],
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_a_training_goes_on_from_pytorchs_state(tmp_path, name):
    options, start, state, end = STATES[name]
    program = (
        "import torch\n"
        f"p = torch.tensor({start}, requires_grad=True)\n"
        f"o = torch.optim.{name}([p], lr=0.7, {options})\n"
        "s = torch.optim.lr_scheduler.StepLR(o, step_size=2, gamma=0.5)\n"
        f"state = {{k: torch.tensor(v) for k, v in {state}.items()}}\n"
        "group = {'lr': 0.05, 'initial_lr': 0.1, 'foreach': None, 'params': [0]}\n"
        "o.load_state_dict({'state': {0: state}, 'param_groups': [group]})\n"
        "s.load_state_dict({'step_size': 2, 'gamma': 0.5, 'base_lrs': [0.1], 'last_epoch': 3,\n"
        "                   '_step_count': 4, '_last_lr': [0.05]})\n"
        "for _ in range(2):\n"
        "    o.zero_grad()\n"
        "    (p**2 * torch.tensor([1.0, 2.0, 3.0])).sum().backward()\n"
        "    o.step()\n"
        "    s.step()\n"
        f"assert torch.allclose(p, torch.tensor({end}), rtol=1e-6), p\n"
        "assert abs(o.param_groups[0]['lr'] - 0.025) < 1e-12 and s.last_epoch == 5\n"
        "try:\n"
        "    o.load_state_dict({'state': {0: {'who': p}}, 'param_groups': [group]})\n"
        "except ValueError as error:\n"
        f"    assert \"{name}.load_state_dict: unexpected 'who'\" in str(error)\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    done = run(tmp_path, program)
    assert done.returncode == 0, done.stderr


def test_second_forms_of_methods(tmp_path):
    program = (
        "import torch\n"
        "x = torch.tensor([[1.0, 4.0], [9.0, 16.0]])\n"
        "y = torch.permute_copy(x, (1, 0))\n"
        "assert torch.sqrt_(x) is x and x.tolist() == [[1, 2], [3, 4]]\n"
        "assert y.tolist() == [[1, 9], [4, 16]]\n"
        "first, second = torch.unbind_copy(x)\n"
        "torch.zero_(first)\n"
        "assert x.tolist() == [[1, 2], [3, 4]] and second.tolist() == [3, 4]\n"
        "assert torch.slice_copy(x, 1, 1).tolist() == [[2], [4]]\n"
        "assert set(torch.dropout_(torch.ones(64), 0.5, True).tolist()) == {0, 2}\n"
    )
    done = run(tmp_path, program)
    assert done.returncode == 0, done.stderr


ABSTRACT = """
import abc
from abc import ABC, abstractmethod
import torch
from torch import nn


class Base(nn.Module, ABC):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, 2)

    @abstractmethod
    def encode(self, x): ...


class Net(Base):
    def __init__(self):
        super().__init__(3)

    def encode(self, x):
        return self.fc(x)

    def forward(self, x):
        return self.encode(x)


class Plain(ABC):
    @abc.abstractmethod
    def f(self): ...


for each in (lambda: Base(3), Plain):
    try:
        each()
    except TypeError as error:
        print("abstract" in str(error))
net = Net()
print(isinstance(net, ABC), isinstance(net, nn.Module), net(torch.ones(1, 3)).shape == (1, 2))
print(issubclass(Net, Base), isinstance(3, ABC), len(list(net.parameters())))
"""


def test_a_module_may_be_abstract(tmp_path):
    done = run(tmp_path, ABSTRACT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * 6 + ["False", "2"]


def test_more_names(tmp_path):
    program = (
        "import torch\n"
        "from torch.utils.data import DataLoader, StackDataset\n"
        "assert isinstance(torch.nn.GRU(2, 3), torch.nn.RNNBase)\n"
        "assert not isinstance(torch.nn.Linear(2, 3), torch.nn.RNNCellBase)\n"
        "both = StackDataset(image=[1, 2, 3], text=[4, 5, 6])\n"
        "batch = next(iter(DataLoader(both, batch_size=2, in_order=True)))\n"
        "assert batch['image'].tolist() == [1, 2] and batch['text'].tolist() == [4, 5]\n"
        "assert StackDataset([1, 2], [3, 4])[1] == (2, 4)\n"
        "layer = torch.nn.TransformerEncoderLayer(8, 2, 16, norm_first=True).eval()\n"
        "net = torch.nn.TransformerEncoder(layer, 2)\n"
        "torch.save(net, 'net.pt')\n"
        "x = torch.randn(5, 1, 8)\n"
        "assert torch.equal(torch.load('net.pt', weights_only=False)(x), net(x))\n"
    )
    done = run(tmp_path, program)
    assert done.returncode == 0, done.stderr


BATCHES = """
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Words(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, i):
        return {"image": torch.full((2,), float(i)), "name": f"w{i}", "more": (i, [str(i)])}


batches = list(DataLoader(Words(), 2, num_workers=2))
assert [b["name"] for b in batches] == [["w0", "w1"], ["w2", "w3"], ["w4"]]
assert batches[2]["image"].tolist() == [[4.0, 4.0]] and batches[0]["more"][0].tolist() == [0, 1]
assert batches[1]["more"][1] == [["2", "3"]] or batches[1]["more"][1] == [("2", "3")]
pairs = [("a", 1), ("bb", 2), ("c", 3)]
texts = DataLoader(pairs, batch_size=2, collate_fn=lambda b: ([t for t, _ in b], b[0][1]))
assert list(texts) == [(["a", "bb"], 1), (["c"], 3)]
assert list(DataLoader(list(range(3)), batch_size=None)) == [0, 1, 2]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(["x", "yy", "zzz"])


assert list(DataLoader(Stream(), batch_size=2)) == [["x", "yy"], ["zzz"]]
loader = DataLoader(Words(), batch_size=2, shuffle=True, drop_last=True)
assert type(loader.sampler).__name__ == "RandomSampler" and loader.drop_last and len(loader) == 2
for batch in loader:
    break
assert len(list(loader)) == 2 and not loader._made
"""

OPTIMIZERS = """
import torch

net = torch.nn.Linear(2, 1)
optim = torch.optim
for make in (lambda p: optim.Adam(p, lr=0.1), lambda p: optim.SGD(p, 0.1, momentum=0.9)):
    optimizer = make(net.parameters())
    assert optimizer.state_dict()["state"] == {} and len(optimizer.state) == 0
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.ones(4, 2)).pow(2).mean().backward()
        optimizer.step()
    state = optimizer.state_dict()
    assert state["param_groups"][0]["lr"] == 0.1 and state["param_groups"][0]["params"] == [0, 1]
    name = "exp_avg" if "Adam" in type(optimizer).__name__ else "momentum_buffer"
    assert sorted(state["state"]) == [0, 1]
    assert torch.equal(optimizer.state[net.weight][name], state["state"][0][name])
    torch.save(state, "optimizer.pt")
    other = make(net.parameters())
    other.load_state_dict(torch.load("optimizer.pt"))
    assert torch.equal(other.state[net.bias][name], optimizer.state[net.bias][name])
    before = [p.detach().clone() for p in net.parameters()]
    optimizer.step()
    once = [p.detach().clone() for p in net.parameters()]
    for p, b in zip(net.parameters(), before):
        p.data.copy_(b)
    other.step()
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), once))
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
plateau.step(2.0)
assert plateau.best == 2.0 and plateau.num_bad_epochs == 0
assert torch.optim.lr_scheduler.StepLR(make([net.weight]), 1).base_lrs == [0.1]
"""

WORDS = """
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.functional import hessian, jacobian, vjp
from torch.distributions import Laplace, MultivariateNormal
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import is_parametrized
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

x = torch.arange(6.0).reshape(2, 3)
assert x.shape == torch.Size([2, 3]) and isinstance(x.size(), torch.Size)
assert x.shape.numel() == 6 and isinstance(x.shape[:1], torch.Size) and x.shape[-1] == 3
assert torch.zeros(x.shape).shape == torch.zeros(torch.Size([2]) + (3,)).shape
assert x.new(2, 1).shape == (2, 1) and x.new([1.0, 2.0]).tolist() == [1, 2]
assert torch.full((2,), 3).dtype == torch.int64 and torch.full((1,), True).dtype == torch.bool
assert torch.full((2,), 3, dtype=torch.float).dtype == torch.float32
assert torch.randint_like(x, 0, 3).dtype == torch.float32
assert np.allclose(np.sqrt(x), np.sqrt(x.numpy())) and isinstance(np.ones(3) * x[0], torch.Tensor)
with torch.device("cpu"):
    assert nn.Linear(1, 1).weight.is_cpu
assert torch.normal(0.0, 1.0, (2, 3)).shape == (2, 3)
assert torch.round(torch.tensor([1.26]), decimals=1).allclose(torch.tensor([1.3]))
three = torch.ones(3).scatter_(0, torch.tensor([0, 2]), 3.0, reduce="multiply")
assert three.tolist() == [3, 1, 3]
assert three.scatter(0, torch.tensor([1]), 5.0).tolist() == [3, 5, 3]
assert three.scatter(0, torch.tensor([1]), torch.ones(1), reduce="add").tolist() == [3, 2, 3]
p, t = torch.sigmoid(x), (x > 2).float()
assert F.binary_cross_entropy(p, t, size_average=False) == F.binary_cross_entropy(
    p, t, reduction="sum")
assert F.mse_loss(p, t, reduce=False).shape == (2, 3)
assert torch.equal(torch.special.expit(x), p) and torch.special.entr(torch.zeros(1)) == 0
assert torch.equal(torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)), x)
v = torch.tensor([1.0, 2.0])
assert torch.equal(jacobian(lambda a: a**2, v), torch.diag(2 * v))
assert torch.equal(hessian(lambda a: (a**3).sum(), v), torch.diag(6 * v))
one, two = jacobian(lambda a, b: a * b, (v, v + 1))
assert torch.equal(one, torch.diag(v + 1)) and torch.equal(two, torch.diag(v))
assert torch.equal(vjp(lambda a: a**2, v, torch.ones(2))[1], 2 * v)
net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
net._modules["0"] = nn.Identity()
assert type(net[0]) is nn.Identity and list(net[1]._parameters) == ["weight", "bias"]
assert sorted(net[1]._buffers) == ["num_batches_tracked", "running_mean", "running_var"]
assert net[1]._get_name() == "BatchNorm1d" and is_parametrized(weight_norm(nn.Linear(2, 2)))
average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
average.update_parameters(net)
net[1].weight.data.fill_(11.0)
average.update_parameters(net)
assert torch.allclose(average.module[1].weight, torch.full((2,), 2.0))
assert average.n_averaged == 2 and average(torch.ones(3, 2)).shape == (3, 2)
update_bn([torch.eye(2), torch.eye(2)], net)
assert torch.allclose(net[1].running_mean, torch.tensor(0.5))
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.profiler import tensorboard_trace_handler

with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
    with record_function("mine"):
        x @ x.T
assert "matmul" in prof.key_averages().table(sort_by="cpu_time_total", row_limit=5)
when = schedule(wait=1, warmup=0, active=1, repeat=1)
with profile(schedule=when, on_trace_ready=tensorboard_trace_handler("traces")) as prof:
    for _ in range(3):
        x @ x.T
        prof.step()
import os

assert [n.endswith(".json") for n in os.listdir("traces")] == [True]
with sdpa_kernel(SDPBackend.MATH):
    F.scaled_dot_product_attention(x[None], x[None], x[None])
c = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
d = MultivariateNormal(torch.zeros(2), c)
expected = -0.5 * (v @ torch.linalg.inv(c) @ v + torch.logdet(c)) - np.log(2 * np.pi)
assert torch.allclose(d.log_prob(v), expected) and d.sample((4,)).shape == (4, 2)
assert torch.allclose(Laplace(0.0, 2.0).log_prob(torch.tensor(1.0)), torch.tensor(-1.8862944))
"""


@pytest.mark.parametrize(
    "text", [BATCHES, OPTIMIZERS, WORDS], ids=["batches", "optimizers", "words"]
)
def test_what_programs_say(tmp_path, text):
    done = run(tmp_path, text)
    assert done.returncode == 0, done.stderr
