"""Random programs through the public API, run eagerly and compiled: everything that can be seen
must be the same, or the compiled call says why it refuses.

    python tests/python/fuzz_compile.py --programs 10000 --seed 1
"""

import argparse
import random
import sys
import types

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
net = mica.nn.Sequential(mica.nn.Linear(4, 4), mica.nn.Tanh(), mica.nn.Dropout(0.25))
opt = mica.optim.{optimizer}([w, v, *net.parameters()], lr=0.125)
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
    "(a * 1).requires_grad_()",
]
CALLS = ["call(f, {x}, {y})"] * 9 + ["quiet(f, {x}, {y})"]


def make_program(rng):
    names = ["x", "y", "buf", "kept"]
    own = []
    body = []
    for i in range(rng.randint(1, 9)):
        text = rng.choice(BODY)
        target = rng.choice(own) if own else "kept.clone()"
        if text.startswith("T") and not own:
            continue
        text = text.replace("T", target, 1) if text.startswith("T") else text
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
    optimizer = rng.choice(["SGD", "Adam", "AdamW", "RMSprop"])
    return optimizer, body, driver


def source_of(program):
    optimizer, body, driver = program
    lines = "".join(f"        {line}\n" for line in body)
    return SETUP.replace("{optimizer}", optimizer).replace("{body}", lines) + "\n".join(driver)


def values(t):
    return None if t is None else t.detach().double().numpy().copy()


def state_of(space):
    seen = [values(space[name]) for name in ("buf", "grid", "w", "v", "kept", "a", "b")]
    seen.append(values(space["counter"].total))
    seen += [values(p) for p in space["net"].parameters()]
    for leaf in (space["w"], space["v"], *space["net"].parameters()):
        seen.append(values(leaf.grad))
    seen.append(np.array(space["cfg"].n))
    return seen


def is_refusal(error):
    return isinstance(error, mica.Unsupported) or "is not kept: a compiled function" in str(error)


def run(program, compiled):
    """What was seen after each line; ends where a compiled call refuses."""
    space = {}
    try:
        return run_in(space, program, compiled)
    finally:
        space.clear()  # hooks hold it, and it holds what they hang on


def run_in(space, program, compiled):
    optimizer, body, driver = program
    space |= {"mica": mica, "F": F, "types": types, "__name__": "program", "hook": None}
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
    exec(source_of((optimizer, body, [])), space)
    for line in driver:
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


def same(a, b):
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def difference(program):
    """Where the two runs differ, in words; empty where they agree. And why one was refused."""
    eager, eager_refusal = run(program, compiled=False)
    found, refusal = run(program, compiled=True)
    for i, (x, y) in enumerate(zip(eager, found, strict=False)):
        line = program[2][i]
        if x[0] != y[0]:
            return f"after '{line}': eager {x[0]}, compiled {y[0]}", refusal
        for kind in (1, 2):
            for n, (p, q) in enumerate(zip(x[kind], y[kind], strict=True)):
                if not same(p, q):
                    what = ("", "state", "result")[kind]
                    return f"after '{line}': {what} {n}: {p} but {q}", refusal
    if len(found) < len(eager) and refusal is None:
        return "the compiled run ended early", refusal
    return "", refusal or eager_refusal


def shrink(program):
    """The same program with as few lines as still show a difference."""

    def fails(p):
        try:
            text, _ = difference(p)
            return bool(text) and "NameError" not in text
        except Exception:
            return False

    again = True
    while again:
        again = False
        for part in (1, 2):
            i = 0
            while i < len(program[part]):
                lines = program[part][:i] + program[part][i + 1 :]
                smaller = (program[0], lines, program[2]) if part == 1 else (*program[:2], lines)
                if program[part][i].startswith("return") or not fails(smaller):
                    i += 1
                else:
                    program, again = smaller, True
    return program


def report(program):
    program = shrink(program)
    body = "\n".join(f"    {line}" for line in program[1])
    driver = "\n".join(program[2])
    text, _ = difference(program)
    return f"{text}\nwith {program[0]}:\ndef f(x, y):\n{body}\n\n{driver}\n"


def fuzz(programs, seed):
    """Yields the number of the program, what is wrong with it, and whether it was refused."""
    mica.set_deterministic(True)
    try:
        for i in range(programs):
            program = make_program(random.Random(seed * 1_000_003 + i))
            text, refusal = difference(program)
            yield i, report(program) if text else "", refusal
    finally:
        mica.set_deterministic(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--refusals", action="store_true", help="say why programs are refused")
    options = parser.parse_args()
    wrong = refused = 0
    why = {}
    for i, text, refusal in fuzz(options.programs, options.seed):
        refused += refusal is not None
        if refusal:
            why[refusal[:90]] = why.get(refusal[:90], 0) + 1
        if text:
            wrong += 1
            print(f"program {i} of seed {options.seed}: {text}", flush=True)
    if options.refusals:
        for text, count in sorted(why.items(), key=lambda item: -item[1]):
            print(f"{count:6} {text}")
    print(f"{options.programs} programs of seed {options.seed}: {wrong} differ, {refused} refused")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
