"""Random functions of a few statements, called a few times while what they read changes: eager and
compiled, everything that can be seen must be the same, or the compiled call says why it refuses."""

import re
import types
from typing import NamedTuple

import mica
import mica.nn.functional as F
import numpy as np

SETUP = """\
mica.manual_seed(3)
G = 2.0
buf = mica.arange(4.0)
grid = mica.arange(8.0).reshape(2, 4) / 4
w = mica.tensor([0.5, -1.0, 2.0, 0.25], requires_grad=True)
v = mica.tensor([1.0, 0.5, -0.5, 1.5], requires_grad=True)
net = mica.nn.Sequential(mica.nn.Linear(4, 4), mica.nn.Tanh(), mica.nn.Dropout(0.25)).to(DEVICE)
cnn = mica.nn.Sequential(
    mica.nn.Conv2d(1, 2, 2, padding=1, bias=False), mica.nn.BatchNorm2d(2), mica.nn.ReLU(),
    mica.nn.Flatten(), mica.nn.Linear(18, 4),
).to(DEVICE)
rows = mica.nn.Embedding(5, 4).to(DEVICE)
trained = [w, v, *net.parameters(), *cnn.parameters(), *rows.parameters()]
opt = mica.optim.{optimizer}(trained, lr=0.125)
cfg = types.SimpleNamespace(k=0.5, n=0, fail=False, items=[1.0, 2.0])
kept = mica.tensor([2.0, -1.0, 0.5, 3.0])


class Counter(mica.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", mica.zeros(4))
        self.rate = 0.5

    def forward(self, x):
        self.total = self.total + x.detach() * self.rate
        return x * self.rate + self.total


def noted(t):
    if t.requires_grad:
        t.retain_grad()
    return t


def doubled(t):
    if t.requires_grad:
        t.register_hook(lambda g: g * 2)
    return t


counter = Counter()
inner = wrap(lambda x: (x * cfg.k, x.flip(0)))


def make():
    k = 1.5

    def f(x, y):
{body}
    def set_k(value):
        nonlocal k
        k = value

    return f, set_k


f, set_k = make()
f = wrap(f)
a, b = mica.ones(4), mica.tensor([1.0, -2.0, 3.0, -4.0])
"""

# Statements of the function's body. A and B stand for variables of four floats, Z for a new one, T
# for one that the function made itself.
BODY = [
    "Z = A + B",
    "Z = A * B",
    "Z = A - B * 0.5",
    "Z = A * k",
    "Z = A * G + cfg.k",
    "Z = A * cfg.items[0] + len(cfg.items)",
    "Z = (A / (B.abs() + 1)).tanh()",
    "Z = mica.where(A > B, A, B * 2)",
    "Z = A.relu()",
    "Z = A.sort().values",
    "Z = A.cumsum(0).clamp(-9, 9)",
    "Z = A.view(2, 2).t().reshape(4)",
    "Z = A.reshape(2, 2).sum(0).repeat(2)",
    "Z = A.clone()",
    "Z = A.detach()",
    "Z = A.view(4)",
    "Z = A[:]",
    "Z = A.flip(0)",
    "Z = grid[0]",
    "Z = (grid * A).sum(0)",
    "Z = w * A",
    "Z = w * v",
    "Z = v.exp() * A",
    "Z = net(A)",
    "Z = net(A).detach()",
    "Z = counter(A)",
    "Z = inner(A)[0] + inner(B)[1]",
    "Z = mica.autograd.checkpoint(lambda t: (t * w).tanh(), A)",
    "Z = A.half().float()",
    "Z = (A > 0).long() * 2 + B",
    "Z = mica.cat([A[:1], B[1:3], A[3:]])",
    "Z = A[mica.tensor([0, 0, -1, 0])]",
    "Z = A.double().sum().float() + B",
    "Z = mica.stack([A, B]).amax(0)",
    "Z = F.dropout(A, 0.5)",
    "Z = A * (2 if cfg.n % 2 else 3)",
    "buf.add_(A.detach())",
    "buf.copy_(A.detach())",
    "buf[1] = A.detach()[0]",
    "buf[1:3] = A.detach()[:2]",
    "buf[:2].mul_(0.5)",
    "grid[1] = A.detach()",
    "grid[:, 0].add_(1)",
    "grid.t()[2].copy_(A.detach()[:2])",
    "x.add_(1)",
    "y[0] = 5",
    "T.mul_(0.5)",
    "T.add_(A)",
    "T.relu_()",
    "T[1:3] = A[:2]",
    "T[0] = 7",
    "T += A",
    "T *= k",
    "cfg.n += 1",
    "(w * A).sum().backward()",
    "(w * v * A).sum().backward()",
    "(net(A) * v).sum().backward()",
    "w.grad = None",
    "w.grad = A.detach()",
    "opt.zero_grad()",
    "opt.step()",
    "mica.nn.utils.clip_grad_norm_([w, v], 1.0)",
    "Z = w.grad * 2 if w.grad is not None else A",
    "Z = mica.grad((w * A).sum(), w)[0]",
    "with mica.no_grad(): w.add_(A.detach())",
    "with mica.no_grad(): w.clamp_(-2, 2)",
    "with mica.no_grad(): w[0] = 0.5",
    "with mica.no_grad(): Z = w * A",
    "if cfg.fail: raise LookupError('stop')",
    "Z = noted(w * A)",
    "Z = doubled(w * A)",
    "Z = A.mean() * B",
    "Z = cnn(mica.stack([A, B]).reshape(2, 1, 2, 2)).sum(0)",
    "(cnn(mica.stack([A, B, w]).reshape(3, 1, 2, 2)) * v).sum().backward()",
    "Z = rows(mica.tensor([0, 2, 2])).sum(0) * A",
    "(rows(mica.tensor([1])) * A).sum().backward()",
    "Z = mica.autograd.checkpoint(net, A)",
    "Z = A.bfloat16().float() + B",
    "Z = (A * 3).int().float() * B",
    "T[1:3].mul_(A[:2])",
    "T[:2].add_(A[:2])",
    "T.view(2, 2)[0] = A[:2]",
    "T.view(2, 2).t()[1].mul_(0.5)",
    "Z = T[1:3].repeat(2); T.mul_(w)",
    "Z = T.view(2, 2); T[0] = A[1]; Z = Z.t().reshape(4)",
    "Z = T.detach(); Z.add_(1); Z = T * 2",
    "Z = T[:2]; Z *= A[:2]; Z = T * 1",
    "Z = A.view(-1)[:4] + B",
    "Z = T.t() if T.ndim == 2 else T[[0, 0, 1, 3]]",
    "T.copy_(A)",
    "T.view(-1)[0] = A.sum().detach()",
    "buf.fill_(len(cfg.items))",
    "grid.copy_(grid.flip(0))",
    "buf[1:] = buf[:-1]",
]

# What happens between calls.
BETWEEN = [
    "set_k({number})",
    "globals_set('G', {number})",
    "cfg.k = {number}",
    "cfg.items[0] = {number}",
    "cfg.items.append({number})",
    "cfg.fail = not cfg.fail",
    "cfg.n = 5",
    "counter.rate = {number}",
    "counter.total = mica.ones(4)",
    "w.requires_grad = not w.requires_grad",
    "v.requires_grad = not v.requires_grad",
    "w.grad = None",
    "w.grad = mica.ones(4)",
    "v.grad = kept",
    "opt.zero_grad()",
    "opt.step()",
    "(w * v).sum().backward()",
    "buf.add_(1)",
    "kept.mul_(0.5)",
    "net[1] = mica.nn.Sigmoid()",
    "cnn.eval()",
    "cnn.train()",
    "cnn[0].weight.requires_grad = not cnn[0].weight.requires_grad",
    "cnn[1] = mica.nn.BatchNorm2d(2, momentum=0.5).to(DEVICE)",
    "net[0].requires_grad_(False)",
    "mica.manual_seed(5)",
    "net[0].weight = mica.nn.Parameter(mica.eye(4))",
    "net.eval()",
    "net.train()",
    "globals_set('buf', buf * 2)",
    "globals_set('hook', w.register_hook(lambda g: g * 2)) if w.requires_grad else None",
    "hook.remove() if hook else None",
    "results[-1].sum().backward() if results else None",
]

ARGUMENTS = [
    *("a", "b", "a", "b", "buf", "buf.view(4)", "grid[0]", "grid.t()[1:3].reshape(4)", "kept"),
    *("w.detach()", "grid", "grid[:1]", "a.double()", "b.half()", "mica.tensor([1, 2, 3, 4])"),
    *("(a * 1).requires_grad_()", "mica.ones(3, 4)", "(b * 1).requires_grad_().detach()[:]"),
]
CALLS = ["call(f, {x}, {y})"] * 9 + ["quiet(f, {x}, {y})"]


OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adamax", "NAdam", "Lion", "Adadelta"]


class Program(NamedTuple):
    optimizer: str
    body: tuple
    driver: tuple

    def __str__(self):
        body = "\n".join(f"    {line}" for line in self.body)
        return f"with {self.optimizer}:\ndef f(x, y):\n{body}\n\n" + "\n".join(self.driver)

    def parts(self):
        """With one line less, each."""
        for i, line in enumerate(self.body):
            if not line.startswith("return"):
                yield self._replace(body=self.body[:i] + self.body[i + 1 :])
        for i in range(len(self.driver)):
            yield self._replace(driver=self.driver[:i] + self.driver[i + 1 :])


class OnDevice(types.ModuleType):
    """mica, whose new tensors are on a device."""

    def __init__(self, device):
        super().__init__("mica")
        self.__dict__.update(vars(mica))
        for name in ("tensor", "ones", "zeros", "arange", "eye", "full"):
            function = getattr(mica, name)
            setattr(self, name, lambda *a, f=function, **k: f(*a, device=device, **k))


def make_program(rng):
    names = ["x", "y", "buf", "kept"]
    own = []
    body = []
    for i in range(rng.randint(1, 9)):
        text = rng.choice(BODY)
        if re.search(r"\bT\b", text):
            if not own:
                continue
            text = re.sub(r"\bT\b", rng.choice(own), text)
        text = text.replace("A", rng.choice(names)).replace("B", rng.choice(names))
        if "Z" in text:
            text = text.replace("Z", f"t{i}")
            names.append(f"t{i}")
            own.append(f"t{i}")
        body.append(text)
    returned = rng.sample(names, rng.randint(1, min(3, len(names))))
    body.append("return " + ", ".join(returned) + ",")
    driver = []
    for _ in range(rng.randint(2, 6)):
        if rng.random() < 0.6:
            number = rng.choice(["0.0", "-0.5", "2.5", "3", "1.25"])
            driver.append(rng.choice(BETWEEN).replace("{number}", number))
        x, y = rng.choice(ARGUMENTS), rng.choice(ARGUMENTS)
        driver.append(rng.choice(CALLS).format(x=x, y=y))
    return Program(rng.choice(OPTIMIZERS), tuple(body), tuple(driver))


def source_of(program):
    lines = "".join(f"        {line}\n" for line in program.body)
    return SETUP.replace("{optimizer}", program.optimizer).replace("{body}", lines)


def values(t):
    return None if t is None else t.detach().cpu().double().numpy().copy()


def state_of(space):
    seen = [values(space[name]) for name in ("buf", "grid", "w", "v", "kept", "a", "b")]
    seen.append(values(space["counter"].total))
    modules = [space["net"], space["cnn"], space["rows"]]
    seen += [values(t) for m in modules for t in m.state_dict().values()]
    for leaf in (space["w"], space["v"], *(p for m in modules for p in m.parameters())):
        seen.append(values(leaf.grad))
    seen.append(np.array(space["cfg"].n))
    return seen


def is_refusal(error):
    return isinstance(error, mica.Unsupported) or "is not kept: a compiled function" in str(error)


def run(program, device, compiled):
    """What was seen after each line; ends where a compiled call refuses."""
    space = {"mica": mica if device == "cpu" else OnDevice(device), "DEVICE": device}
    try:
        return run_in(space, program, compiled)
    finally:
        space.clear()  # hooks hold it, and it holds what they hang on


def run_in(space, program, compiled):
    space |= {"F": F, "types": types, "__name__": "program", "hook": None}
    space["results"] = []
    space["wrap"] = mica.compile if compiled else lambda f: f
    space["globals_set"] = space.__setitem__

    def call(f, x, y):
        out = f(x, y)
        space["results"] = list(out)

    def quiet(f, x, y):
        with mica.no_grad():
            call(f, x, y)

    space["call"], space["quiet"] = call, quiet
    seen = []
    exec(source_of(program), space)
    for line in program.driver:
        try:
            exec(line, space)
            what = "done"
        except Exception as error:
            if is_refusal(error):
                return seen, f"{type(error).__name__}: {error}"
            what = type(error).__name__
            if line.startswith("results"):
                return [*seen, (what, [], [])], None  # how far backward went is open
        try:
            seen.append((what, state_of(space), [values(t) for t in space["results"]]))
        except mica.Error as error:
            if not is_refusal(error):
                raise
            return seen, str(error)
    return seen, None


def difference(program, device, near):
    """Where the two runs differ, in words; empty where they agree. And why one was refused."""
    eager, eager_refusal = run(program, device, compiled=False)
    found, refusal = run(program, device, compiled=True)
    for i, (x, y) in enumerate(zip(eager, found, strict=False)):
        line = program.driver[i]
        if x[0] != y[0]:
            return f"after '{line}': eager {x[0]}, compiled {y[0]}", refusal
        for kind in (1, 2):
            for n, (p, q) in enumerate(zip(x[kind], y[kind], strict=True)):
                if (p is None) != (q is None) or (p is not None and not near(p, q, "float32")):
                    what = ("", "state", "result")[kind]
                    return f"after '{line}': {what} {n}: {p} but {q}", refusal
    if len(found) < len(eager) and refusal is None:
        return "the compiled run ended early", refusal
    return "", refusal or eager_refusal


def make(rng, settings):
    program = make_program(rng)
    # Optimizers that divide by the size of a gradient make steps of what TF32 rounds away.
    return program._replace(optimizer="SGD") if settings.tf32 else program
