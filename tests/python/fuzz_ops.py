"""Random programs over every function that op_cases.py has a case for: a chain of calls whose
arguments are drawn, or made of earlier results; run eagerly, compiled, and call by call in NumPy.
"""

import math
import random
from typing import Any, NamedTuple

import mica
import numpy as np
import op_cases  # noqa: F401
from fuzz_numpy import expected_by_numpy, words
from op_calls import (
    CASES,
    CHANGES_ITS_INPUT,
    Case,
    Device,
    Draw,
    Name,
    functions,
    is_tensor,
    normal,
)

# What asks for values, for memory or for Python's objects: there is nothing to compile.
LEFT_OUT = words(
    "__bool__ __contains__ __deepcopy__ __float__ __index__ __int__ __iter__ "
    "__len__ allclose argwhere as_tensor asarray can_cast cpu data dim element_size equal finfo "
    "from_dlpack from_numpy iinfo is_contiguous is_floating_point is_leaf is_tensor item "
    "itemsize masked_select nbytes ndim ndimension nonzero numel promote_types "
    "requires_grad result_type shape size storage_offset stride tensor tolist unique"
)
# Small differences of their arguments become large ones of their results.
JUMPS = words(
    "__abs__ __eq__ __floordiv__ __ge__ __gt__ __ifloordiv__ __imod__ __le__ __lt__ __mod__ "
    "__ne__ __rfloordiv__ __rmod__ adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
    "all amax amin any argmax argmin argsort bool byte ceil clamp clip count_nonzero div eq "
    "floor floor_divide fmod ge grid_sample gt hardshrink hardsigmoid hardswish hardtanh int "
    "isclose le logical_and logical_not logical_or logical_xor long lt max max_pool1d "
    "max_pool2d max_pool3d maximum median min minimum nan_to_num ne relu6 remainder round "
    "searchsorted sign softshrink sort threshold to topk trunc unique where"
)
RANDOM = {
    f"{name}, random": Case(place, name, arguments, keywords, None)
    for place, name, arguments, keywords in [
        ("F", "dropout", (normal(3, 4), 0.5), {}),
        ("F", "dropout2d", (normal(2, 4, 3, 3), 0.25), {}),
        ("mica", "rand_like", (normal(3, 4),), {}),
        ("mica", "randn_like", (normal(3, 4),), {}),
        ("mica", "bernoulli", (Draw("u", (3, 4), 0, 1),), {}),
        ("Tensor", "uniform_", (Draw("x", (3, 4)),), {}),
        ("Tensor", "normal_", (Draw("x", (3, 4)),), {}),
        ("F", "gumbel_softmax", (normal(3, 4),), {}),
    ]
}
ALL = {k: c for k, c in CASES.items() if c.name not in LEFT_OUT} | RANDOM
KEYS = list(ALL)
FLOATS = ["float32"] * 5 + ["float64"] * 2 + ["float16", "bfloat16"]
INTEGERS = ["int64"] * 4 + ["int32", "int16", "int8", "uint8", "uint32"]
STEPS = ["step", "step from zero", "step to zero"]
MOST = 400  # characters of a message


class Statement(NamedTuple):
    number: int
    key: str
    place: str
    sources: tuple  # for each drawn tensor None, or the statement whose result it is made of
    way: str  # plain, inner (a compiled function), checkpoint, hooked


class Program(NamedTuple):
    statements: tuple
    dtype: str
    integers: str
    gradient: str  # none, inside, outside, or of STEPS
    optimizer: str
    wanted: float  # the part of the drawn tensors of which gradients are wanted
    arguments: float  # the part of them that are arguments; the others belong to a closure
    calls: tuple  # of seed, layout, whether gradients are off
    exact: bool

    def __str__(self):
        lines = [
            f"{self.dtype}, {self.integers}, gradients {self.gradient} ({self.optimizer}), of "
            f"{self.wanted} of the tensors, {self.arguments} of them arguments, calls {self.calls}"
        ]
        for s in self.statements:
            from_ = f" from {s.sources}" if any(n is not None for n in s.sources) else ""
            lines.append(f"  v{s.number} = {s.place}.{s.key}{from_} [{s.way}]")
        return "\n".join(lines)

    def parts(self):
        """With one thing less, each."""
        for i in range(len(self.statements)):
            yield self._replace(statements=self.statements[:i] + self.statements[i + 1 :])
        for i in range(len(self.calls)):
            yield self._replace(calls=self.calls[:i] + self.calls[i + 1 :])
        for i, s in enumerate(self.statements):
            plain = s._replace(sources=(None,) * len(s.sources), way="plain")
            if s != plain:
                yield self._replace(
                    statements=(*self.statements[:i], plain, *self.statements[i + 1 :])
                )
        if self.gradient != "none":
            yield self._replace(gradient="none")


def drawn(value):
    if isinstance(value, Draw):
        return [value]
    if isinstance(value, (tuple, list)):
        return [d for v in value for d in drawn(v)]
    if isinstance(value, dict):
        return [d for v in value.values() for d in drawn(v)]
    return []


def make_program(rng, exact):
    calls = tuple(
        (rng.randrange(1000), rng.choice(["dense", "dense", "strided"]), rng.random() < 0.15)
        for _ in range(rng.randint(1, 4))
    )
    # A compiled function reads a dense copy, of which sums may go another way.
    exact = exact and all(layout == "dense" for _, layout, _ in calls)
    statements = []
    for number in range(rng.randint(1, 7)):
        key = rng.choice(KEYS)
        case = ALL[key]
        sources = []
        for d in drawn([*case.arguments, case.keywords]):
            follows = d.kind in ("x", "u") and not d.dtype and (exact or case.name not in JUMPS)
            reuse = statements and follows and rng.random() < 0.6
            sources.append(rng.choice(statements).number if reuse else None)
        place = rng.choice(list(functions(mica, case)))
        way = rng.choice(["plain"] * 8 + ["inner", "checkpoint", "hooked"])
        statements.append(Statement(number, key, place, tuple(sources), way))
    return Program(
        tuple(statements),
        rng.choice(FLOATS),
        rng.choice(INTEGERS),
        rng.choice(["none", "inside", "inside", "outside", "outside", *STEPS]),
        rng.choice(["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion", "NAdam", "Adadelta"]),
        rng.choice([0.3, 0.6, 1.0]),
        rng.choice([0.0, 0.5, 1.0]),
        calls,
        exact,
    )


def dtype_of(draw, program):
    if draw.kind == "integers" and draw.dtype == "int64" and draw.low >= 0 and draw.high <= 127:
        return program.integers
    return draw.dtype or program.dtype


def strided(t):
    """The same values, with gaps between them."""
    if t.ndim == 0:
        return t
    wide = mica.empty(*t.shape[:-1], 2 * t.shape[-1], dtype=t.dtype, device=t.device)
    wide[..., ::2] = t
    return wide[..., ::2]


def fitted(value, draw, dtype, exact):
    """Of any tensor one that may stand where one is drawn."""
    count = math.prod(draw.shape)
    flat = value.reshape(-1)
    flat = flat.repeat(math.ceil(count / flat.numel()))[:count].reshape(draw.shape)
    flat = flat.to(getattr(mica, dtype))
    if draw.kind == "u":
        return flat.tanh() * ((draw.high - draw.low) / 2) + (draw.low + draw.high) / 2
    return flat if exact else flat.tanh()


class DisagreementError(Exception):
    """NumPy has another result."""


class Run:
    """One run of a program: its tensors, and what was seen."""

    def __init__(self, program, device, compiled, by_numpy):
        self.program, self.device, self.by_numpy = program, device, by_numpy
        self.wrap = mica.compile if compiled else lambda f: f
        self.inner = {}
        self.slots = []  # (statement, number of the draw) of arguments
        self.closure = {}
        rng = random.Random(repr(program[1:7]))
        self.wanted, self.draws = {}, {}
        for s in program.statements:
            case = ALL[s.key]
            changes = CHANGES_ITS_INPUT.fullmatch(case.name)
            for n, d in enumerate(drawn([*case.arguments, case.keywords])):
                place = (s.number, n)
                self.draws[place] = d
                floating = dtype_of(d, program) in FLOATS
                self.wanted[place] = floating and d.grad and rng.random() < program.wanted
                if rng.random() < program.arguments or (changes and n == 0):
                    self.slots.append(place)
                    if program.gradient in STEPS:
                        self.wanted[place] = False  # the .grad of an argument is refused
                else:
                    self.closure[place] = self.tensor(place, 0)
        self.leaves = [t for t in self.closure.values() if t.requires_grad]
        make = getattr(mica.optim, program.optimizer)
        self.optimizer = make(self.leaves, lr=0.125) if self.leaves else None
        self.call = self.wrap(self.body)

    def tensor(self, place, seed):
        draw = self.draws[place]
        array = draw.array(str(place), str(seed))
        dtype = getattr(mica, dtype_of(draw, self.program))
        t = mica.tensor(array, dtype=dtype, device=self.device)
        t.requires_grad = self.wanted[place]
        return t

    def body(self, *arguments):
        tensors = dict(zip(self.slots, arguments, strict=True)) | self.closure
        values, results = {}, []
        for s in self.program.statements:
            results += self.step(s, tensors, values)
        if self.program.gradient == "inside" or (self.program.gradient in STEPS and self.optimizer):
            results += self.differentiate(results, tensors)
        return results

    def differentiate(self, results, tensors):
        total = sum_of(results)
        if total is None:
            return []
        if self.program.gradient in STEPS:
            if self.program.gradient == "step from zero":
                self.optimizer.zero_grad()
            total.backward()
            self.optimizer.step()
            if self.program.gradient == "step to zero":
                self.optimizer.zero_grad()
            return []
        leaves = [t for t in tensors.values() if t.requires_grad]
        return [g for g in mica.grad(total, leaves) if g is not None]

    def step(self, s, tensors, values):
        case = ALL[s.key]
        program = self.program
        numbers = iter(range(len(s.sources)))

        def build(value):
            if isinstance(value, Draw):
                n = next(numbers)
                own = tensors[s.number, n]
                earlier = values.get(s.sources[n])
                if earlier is None or not earlier.numel() or not own.numel():
                    return own
                return fitted(earlier, value, dtype_of(value, program), program.exact)
            if isinstance(value, Name):
                return getattr(mica, value.name)
            if isinstance(value, Device):
                return self.device
            if isinstance(value, (tuple, list)):
                return type(value)([build(v) for v in value])
            return {k: build(v) for k, v in value.items()} if isinstance(value, dict) else value

        arguments = [build(a) for a in case.arguments]
        keywords = {k: build(v) for k, v in case.keywords.items()}
        if CHANGES_ITS_INPUT.fullmatch(case.name):
            arguments[0] = arguments[0].clone()
        function = functions(mica, case)[s.place]
        if not callable(function):  # a property
            name = case.name
            function = lambda x: getattr(x, name)  # noqa: E731
        outputs = self.called(s, case, function, arguments, keywords)
        if self.by_numpy:
            compare_with_numpy(case, arguments, keywords, outputs)
        floats = [t for t in outputs if t.dtype.is_floating_point]
        if floats:
            values[s.number] = floats[0]
            if s.way == "hooked" and floats[0].requires_grad and not floats[0].is_leaf:
                floats[0].register_hook(lambda g: g * 2)
        return outputs

    def called(self, s, case, function, arguments, keywords):
        def run(first, *more):
            result = function(first, *more, **keywords)
            result = arguments[0] if result is None else result
            result = case.then(result) if case.then else result
            found = result if isinstance(result, (tuple, list)) else [result]
            return tuple(t for t in found if is_tensor(t))

        if not arguments or not is_tensor(arguments[0]) or CHANGES_ITS_INPUT.fullmatch(case.name):
            return list(run(*arguments)) if arguments else list(call_of(function, keywords))
        rest = arguments[1:]
        if s.way == "inner" and s.number not in self.inner:
            self.inner[s.number] = self.wrap(lambda x: run(x, *rest))
        if s.way == "inner" and not any(map(is_tensor, drawn_tensors(rest, keywords))):
            return list(self.inner[s.number](arguments[0]))
        if s.way == "checkpoint":
            made = mica.autograd.checkpoint(lambda x: run(x, *rest), arguments[0])
            return list(made) if isinstance(made, (tuple, list)) else [made]
        return list(run(*arguments))


def drawn_tensors(rest, keywords):
    for value in (*rest, *keywords.values()):
        if is_tensor(value):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from drawn_tensors(value, {})


def call_of(function, keywords):
    result = function(**keywords)
    return [result] if is_tensor(result) else [t for t in result if is_tensor(t)]


def sum_of(results):
    """With other weights for each element."""
    total = None
    for t in results:
        if is_tensor(t) and t.requires_grad and t.numel():
            ramp = mica.arange(t.numel(), dtype=mica.float32, device=t.device).cos()
            part = (t.reshape(-1).to(mica.float32) * ramp).sum()
            total = part if total is None else total + part
    return total


def compare_with_numpy(case, arguments, keywords, outputs):
    expected = expected_by_numpy(case, arguments, keywords)
    if expected is None or not outputs:
        return
    wanted, tolerance = expected
    got = host(outputs[0])
    wanted = np.asarray(wanted)
    if got.shape != wanted.shape:
        raise DisagreementError(f"{case.name}: shape {got.shape}, NumPy's is {wanted.shape}")
    wanted = wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        if outputs[0].dtype.is_floating_point:
            largest = mica.finfo(outputs[0].dtype).max
            wanted = np.where(np.abs(wanted) > largest, np.copysign(np.inf, wanted), wanted)
        scale = np.where(np.isfinite(wanted), np.abs(wanted), 0)
        scale = scale + (scale.max() if scale.size else 0) * tolerance + 1e-6
        near = np.abs(got - wanted) <= tolerance * (scale + 1)
        same = near | (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    if not same.all():
        at = np.argwhere(~same)[0]
        raise DisagreementError(
            f"{case.name}: {got[tuple(at)]} at {at}, NumPy's is {wanted[tuple(at)]}"
        )


def host(t):
    with np.errstate(all="ignore"):
        return np.asarray(t.detach().cpu().double().numpy()).copy()


def run(program, device, compiled):
    """What each call gave, and why one was refused."""
    seen = []
    mica.manual_seed(11)
    one = Run(program, device, compiled, by_numpy=False)
    for seed, layout, quiet in program.calls:
        arguments = [one.tensor(place, seed) for place in one.slots]
        if layout == "strided":
            arguments = [
                strided(t.detach()).requires_grad_(t.requires_grad) if t.ndim else t
                for t in arguments
            ]
        try:
            with mica.set_grad_enabled(not quiet):
                results = one.call(*arguments)
                total = sum_of(results) if program.gradient == "outside" and not quiet else None
                if total is not None:
                    total.backward()
        except Exception as error:
            if isinstance(error, mica.Unsupported):
                return seen, f"{type(error).__name__}: {error}"
            seen.append((type(error).__name__, [str(error)]))
            continue
        # A gradient that a step clears before it makes it is used up.
        leaves = [] if program.gradient == "step from zero" else one.leaves
        grads = [t.grad for t in (*arguments, *leaves)]
        sums = program.gradient == "outside"  # of gradients, in whatever order they come
        exact = [program.exact] * len(results) + [program.exact and not sums] * len(grads)
        exact += [program.exact] * len(one.closure)
        tensors = zip((*results, *grads, *one.closure.values()), exact, strict=True)
        seen.append(
            ("done", [None if t is None else (str(t.dtype), host(t), bits) for t, bits in tensors])
        )
    return seen, None


def check_by_numpy(program, device):
    """Each call of the first run beside NumPy's."""
    try:
        one = Run(program._replace(gradient="none"), device, compiled=False, by_numpy=True)
        one.body(*[one.tensor(place, program.calls[0][0]) for place in one.slots])
    except DisagreementError as wrong:
        return str(wrong)
    except Exception:
        return ""  # the other runs tell
    return ""


def difference(program, device, near):
    """Where the runs differ, in words; empty where they agree. And why one was refused."""
    if not program.calls or not program.statements:
        return "", None
    if text := check_by_numpy(program, device):
        return f"NumPy: {text}", None
    eager, eager_refusal = run(program, device, compiled=False)
    found, refusal = run(program, device, compiled=True)
    for i, (x, y) in enumerate(zip(eager, found, strict=False)):
        if x[0] != y[0]:
            return f"call {i}: eager {x[0]} {x[1][:1]}, compiled {y[0]} {y[1][:1]}", refusal
        if x[0] != "done":
            continue
        if len(x[1]) != len(y[1]):
            return f"call {i}: {len(x[1])} tensors, compiled {len(y[1])}", refusal
        for n, (p, q) in enumerate(zip(x[1], y[1], strict=True)):
            if (p is None) != (q is None):
                return f"call {i}: tensor {n} is there in one run alone", refusal
            if p is not None and not (p[0] == q[0] and near(p[1], q[1], p[0], p[2])):
                return f"call {i}: tensor {n}: {p} but {q}"[:MOST], refusal
    if len(found) < len(eager) and refusal is None:
        return "the compiled run ended early", refusal
    return "", refusal or eager_refusal


def make(rng, settings) -> Any:
    program = make_program(rng, exact=settings.exact)
    # Optimizers that divide by the size of a gradient make steps of what TF32 rounds away.
    return program._replace(optimizer="SGD") if settings.tf32 else program
