"""How a case of op_cases.py is drawn, called in mica or in PyTorch, and made comparable."""

import math
import operator
import re
from typing import Any, NamedTuple

import numpy as np
from layer_cases import generator

CHANGES_ITS_INPUT = re.compile(
    r"[a-z]\w*[a-z]_|__setitem__"
    r"|__i(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift)__"
)


ODD_NUMBERS = [0.0, -0.0, 1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, np.inf, -np.inf, np.nan]


class Draw(NamedTuple):
    """A tensor argument, drawn anew for each case and place in its arguments."""

    kind: str
    shape: tuple
    low: float = 0
    high: float = 0
    dtype: str = ""  # "" is the one that the case runs in
    grad: bool = False

    def __repr__(self):
        kind = self.dtype or (self.kind if self.grad else f"fixed {self.kind}")
        return kind + str(list(self.shape)).replace(" ", "")

    def array(self, *seed):
        rng = generator(*seed)
        if self.kind == "x":
            return rng.standard_normal(self.shape)
        if self.kind == "definite":  # symmetric and positive
            x = rng.standard_normal(self.shape)
            return x @ x.swapaxes(-1, -2) + self.shape[-1] * np.eye(self.shape[-1])
        if self.kind == "u":
            return rng.uniform(self.low, self.high, self.shape)
        if self.kind == "signs":
            return rng.choice([-1.0, 1.0], self.shape)
        if self.kind == "bool":
            return rng.integers(0, 2, self.shape) > 0
        if self.kind == "permuted":  # no two are equal
            return rng.permutation(math.prod(self.shape)).reshape(self.shape) * 0.5 - 2.0
        if self.kind == "rising":
            return np.sort(rng.standard_normal(self.shape))
        if self.kind == "odd":
            return np.array(ODD_NUMBERS).reshape(self.shape)
        return rng.integers(self.low, self.high, self.shape)


class Name(NamedTuple):
    """What both libraries have under this name: a dtype or a memory format."""

    name: str

    def __repr__(self):
        return self.name


class Device:
    def __repr__(self):
        return "device"


def normal(*shape):
    return Draw("x", shape, grad=True)


def permuted(*shape):
    return Draw("permuted", shape, grad=True)


def between(low, high, *shape):
    return Draw("u", shape, low, high, grad=True)


def integers(low, high, *shape, dtype="int64"):
    return Draw("integers", shape, low, high, dtype)


def bools(*shape):
    return Draw("bool", shape, dtype="bool")


def fixed(draw, dtype=""):
    """Without a gradient, and perhaps of a dtype whatever the case runs in."""
    return draw._replace(grad=False, dtype=dtype or draw.dtype)


class Case(NamedTuple):
    place: str  # where alone it is called, "" for everywhere
    name: str
    arguments: tuple
    keywords: dict
    then: Any  # what is compared, of the result


def text(value):
    if isinstance(value, slice):
        ends = ["" if v is None else str(v) for v in (value.start, value.stop, value.step)]
        return ":".join(ends if ends[2] else ends[:2])
    if value is Ellipsis:
        return "..."
    if isinstance(value, np.ndarray):
        return f"array{list(value.shape)}"
    if type(value) in (tuple, list):
        inside = ", ".join(map(text, value))
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    return repr(value)


CASES = {}


def case(name, *arguments, then=None, **keywords):
    """A call of this name, in all of mica, mica.nn.functional (F) and Tensor that have it, or in
    the one whose name stands in front of it. Its key is how it reads.
    """
    shown = [*map(text, arguments), *(f"{k}={text(v)}" for k, v in keywords.items())]
    key = f"{name}({', '.join(shown)})"
    assert key not in CASES, key
    place, _, last = name.rpartition(".")
    CASES[key] = Case(place, last, arguments, keywords, then)


def places(library):
    return {
        "F": library.nn.functional,
        "mica": library,
        "Tensor": library.Tensor,
        "linalg": library.linalg,
    }


def functions(library, case):
    """By place, what the case calls; PyTorch need not have it in all places that mica has."""
    found = {
        place: getattr(owner, case.name)
        for place, owner in places(library).items()
        if hasattr(owner, case.name)
        and (place == "Tensor" or not case.name.startswith("__"))
        and (place == "linalg") == (case.place == "linalg")  # some names mean something else there
    }
    if CHANGES_ITS_INPUT.fullmatch(case.name) and case.name.startswith("__"):
        # As the statement: where x += y cannot change x, it is x = x + y.
        return {"Tensor": getattr(operator, case.name)}
    return {case.place: found[case.place]} if case.place in found else found


def draw_cotangent(key, number, shape):
    return generator(key, "cotangent", str(number)).standard_normal(shape)


def project(key, arrays, dtypes, dtype="float64"):
    """Of each array a sum with random weights: it tells a wrong element as well as all of them
    would. The label of an output says its shape, and its dtype where that is not the case's.
    """
    projections = {}
    for name, array in arrays.items():
        weights = generator(key, name, "projection").uniform(0.5, 1.5, array.size)
        kind, i = name.split()
        label = f"{kind[0]}{i}"
        if kind == "output":
            label = dtypes[int(i)].replace(dtype, "") + str(list(array.shape)).replace(" ", "")
            label = f"{i} {label}" if i != "0" else label
        projections[label] = float(weights @ array.ravel()) / math.sqrt(max(1, array.size))
    return projections


def tolerance_of(table, dtype, dtypes):
    """Of the case's dtype, or of an output's that has fewer digits: integers give float32."""
    return max(table[d] for d in (dtype, *dtypes) if d in table)


def is_tensor(value):
    return hasattr(value, "requires_grad")


def leaves_of(result):
    """The tensors and numbers of a result, which may be a tuple or list of them."""
    if isinstance(result, (tuple, list)) and any(map(is_tensor, result)):
        return list(result)
    return [result]


def as_array(value):
    """A copy, in which numbers stand for infinities and NaN: they are compared as well."""
    if is_tensor(value):
        value = value.detach().cpu().double().numpy()
    return np.nan_to_num(np.array(value, np.float64), nan=77.0, posinf=88.0, neginf=-88.0)


def dtype_of(value):
    if is_tensor(value):
        return str(value.dtype).split(".")[-1]
    if isinstance(value, bool):
        return "bool"
    return ""


class Call:
    """The arguments of a case for one library, and what becomes of them."""

    def __init__(self, library, key, case, dtype, device):
        self.library, self.key, self.case = library, key, case
        self.dtype, self.device = dtype, device
        self.tensors = []
        self.arguments = [self.make(a) for a in case.arguments]
        self.keywords = {k: self.make(v) for k, v in case.keywords.items()}

    def make(self, value):
        if isinstance(value, Draw):
            array = value.array(self.key, "input", str(len(self.tensors)))
            dtype = getattr(self.library, value.dtype or self.dtype)
            t = self.library.tensor(array, dtype=dtype, device=self.device)
            t.requires_grad = value.grad
            self.tensors.append(t)
            return t
        if isinstance(value, Name):
            return getattr(self.library, value.name)
        if isinstance(value, Device):
            return self.device
        if isinstance(value, (tuple, list)):
            return type(value)(map(self.make, value))
        return dict(value) if isinstance(value, dict) else value  # __deepcopy__ writes to one

    def run(self, function):
        """Arrays by name, and the dtypes of outputs."""
        changing = CHANGES_ITS_INPUT.fullmatch(self.case.name)
        if changing:
            self.arguments[0] = self.arguments[0].clone()
        before = [as_array(t) for t in self.tensors]
        # A property's descriptor is not called.
        if callable(function):
            result = function(*self.arguments, **self.keywords)
        else:
            result = getattr(self.arguments[0], self.case.name)
        if result is None:  # of __setitem__
            result = self.arguments[0]
        outputs = leaves_of(self.case.then(result) if self.case.then else result)
        results = {f"output {i}": as_array(y) for i, y in enumerate(outputs)}
        dtypes = [dtype_of(y) for y in outputs]
        results |= {f"input {i}": g for i, g in self.gradients(outputs)}
        for i, (t, was) in enumerate(zip(self.tensors, before, strict=True)):
            now = as_array(t)
            if not np.array_equal(now, was):  # a running mean
                results[f"changed {i}"] = now
        return results, dtypes

    def gradients(self, outputs):
        total = 0
        for i, y in enumerate(outputs):
            if is_tensor(y) and y.requires_grad:
                cotangent = draw_cotangent(self.key, i, tuple(y.shape))
                weights = self.library.tensor(cotangent, dtype=y.dtype, device=y.device)
                total = total + (y * weights).sum()
        if is_tensor(total):
            total.backward()
            for i, t in enumerate(self.tensors):
                if t.requires_grad and t.grad is not None:
                    yield i, as_array(t.grad)


def run(library, key, case, dtype="float64", device="cpu"):
    """(place, arrays by name, dtypes) for each place that has the function."""
    for place, function in functions(library, case).items():
        yield place, *Call(library, key, case, dtype, device).run(function)
