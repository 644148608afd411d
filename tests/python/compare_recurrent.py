"""Recurrent layers beside PyTorch's: values and gradients of random configurations.

    PYTHONPATH=build/release/python python tests/python/compare_recurrent.py --count 600

PyTorch computes in float64 on the CPU, in the interpreter that --torch names (this one unless
given), mica on --device in each of --dtypes; --kernel forces one of its kernels. Prints the
largest error, relative to the largest value of its tensor, and exits with 1 where one is above
the dtype's bound.

    … --write-golden

writes tests/golden/recurrent.npz instead: what PyTorch gives for the first configurations.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "recurrent.npz"
GOLDEN_COUNT = 12
MODES = ("LSTM", "GRU", "RNN_TANH", "RNN_RELU")
BOUNDS = {"float64": 1e-11, "float32": 2e-5, "float16": 2e-2, "bfloat16": 1.2e-1}


def configuration(seed, large=False):
    """Sizes and options; with large, sizes that every kernel takes."""
    rng = np.random.default_rng(seed)

    def pick(*choices):
        return choices[rng.integers(len(choices))]

    mode = MODES[seed % len(MODES)]
    hidden = pick(128, 256) if large else int(rng.integers(1, 20))
    steps, batch = int(rng.integers(1, 8)), int(rng.integers(1, 40 if large else 6))
    projects = mode == "LSTM" and hidden > 1 and not large and rng.random() < 0.3
    return {
        "mode": mode,
        "input_size": int(rng.integers(1, 40 if large else 10)),
        "hidden_size": hidden,
        "num_layers": int(rng.integers(1, 4)),
        "bias": bool(rng.random() < 0.7),
        "batch_first": bool(rng.random() < 0.5),
        "bidirectional": bool(rng.random() < 0.5),
        "proj_size": int(rng.integers(1, hidden)) if projects else 0,
        "steps": steps,
        "batch": batch,
        "states": bool(rng.random() < 0.6),
        "lengths": rng.integers(1, steps + 1, batch).tolist() if rng.random() < 0.5 else None,
        "seed": seed,
    }


def arguments(c):
    names = ("num_layers", "bias", "batch_first", "bidirectional")
    options = {name: c[name] for name in names}
    if c["proj_size"]:
        options["proj_size"] = c["proj_size"]
    if c["mode"].startswith("RNN"):
        options["nonlinearity"] = c["mode"].split("_")[1].lower()
    return c["mode"].split("_")[0], (c["input_size"], c["hidden_size"]), options


def draw(c, shapes):
    """Weights by name, input, states and cotangents."""
    rng = np.random.default_rng([c["seed"], 1])
    bound = 1 / np.sqrt(c["hidden_size"])
    weights = {name: rng.uniform(-bound, bound, shape) for name, shape in shapes.items()}
    order = (c["batch"], c["steps"]) if c["batch_first"] else (c["steps"], c["batch"])
    stacks = c["num_layers"] * (2 if c["bidirectional"] else 1)
    out = c["proj_size"] or c["hidden_size"]
    states = [rng.uniform(-1, 1, (stacks, c["batch"], size)) for size in (out, c["hidden_size"])]
    states = states if c["mode"] == "LSTM" else states[:1]
    x = rng.uniform(-1, 1, (*order, c["input_size"]))
    cotangents = [rng.uniform(-1, 1, (*order, out * (2 if c["bidirectional"] else 1)))]
    cotangents += [rng.uniform(-1, 1, s.shape) for s in states]
    return weights, x, states, cotangents


def by_torch(c, dtype="float64"):
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    kind, sizes, options = arguments(c)
    dtype = getattr(torch, dtype)
    layer = getattr(torch.nn, kind)(*sizes, **options).to(dtype)
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    weights, x, states, cotangents = draw(c, shapes)
    layer.load_state_dict({name: torch.tensor(w) for name, w in weights.items()})
    x = torch.tensor(x, dtype=dtype, requires_grad=True)
    states = [torch.tensor(s, dtype=dtype, requires_grad=True) for s in states]
    given = tuple(states) if len(states) == 2 else states[0]
    first = c["batch_first"]
    sent = x
    if c["lengths"]:
        sent = pack_padded_sequence(x, torch.tensor(c["lengths"]), first, enforce_sorted=False)
    y, last = layer(sent, given if c["states"] else None)
    if c["lengths"]:
        y, _ = pad_packed_sequence(y, first, total_length=c["steps"])
    out = [y, *(last if len(states) == 2 else (last,))]
    sent_back = [torch.tensor(g, dtype=dtype) for g in cotangents]
    total = sum((a * g).sum() for a, g in zip(out, sent_back, strict=True))
    total.backward()
    leaves = [x, *(states if c["states"] else []), *layer.parameters()]
    return [t.detach().numpy() for t in out] + [t.grad.numpy() for t in leaves]


def by_mica(c, device="cpu", dtype="float64"):
    import mica
    from mica.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    kind, sizes, options = arguments(c)
    layer = getattr(mica.nn, kind)(*sizes, **options)
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    weights, x, states, cotangents = draw(c, shapes)
    kind = getattr(mica, dtype)

    def tensor(array, grad=False):
        t = mica.tensor(array).to(device).to(kind)
        t.requires_grad = grad
        return t

    layer.to(device).to(kind)
    layer.load_state_dict({name: tensor(w) for name, w in weights.items()})
    x = tensor(x, True)
    states = [tensor(s, True) for s in states]
    given = None
    if c["states"]:
        given = tuple(states) if len(states) == 2 else states[0]
    first = c["batch_first"]
    packed = c["lengths"] and c["seed"] % 8 >= 4
    if packed:
        sent = pack_padded_sequence(x, c["lengths"], first, enforce_sorted=False)
        y, last = layer(sent, given)
        y, lengths = pad_packed_sequence(y, first, total_length=c["steps"])
        assert lengths.tolist() == c["lengths"]
    elif c["lengths"]:
        y, last = layer(x, given, lengths=mica.tensor(c["lengths"], device=device))
    else:
        y, last = layer(x, given)
    out = [y, *(last if len(states) == 2 else (last,))]
    leaves = [x, *(states if c["states"] else []), *layer.parameters()]
    mica.autograd.backward(out, [tensor(g) for g in cotangents])
    results = [t.detach() for t in out] + [t.grad for t in leaves]
    return [t.to(mica.float64).to("cpu").numpy() for t in results]


def largest_error(expected, got):
    worst = 0.0
    for e, g in zip(expected, got, strict=True):
        assert e.shape == g.shape, f"{e.shape} and {g.shape}"
        worst = max(worst, float(np.max(np.abs(e - g)) / (np.max(np.abs(e)) + 1e-30)))
    return worst if worst == worst else float("inf")


def write_torch(path, first, count, large):
    arrays = {}
    for seed in range(first, first + count):
        for i, value in enumerate(by_torch(configuration(seed, large))):
            arrays[f"{seed}/{i}"] = value
    np.savez(path, **arrays)


def read(path):
    values = {}
    with np.load(path) as file:
        for name in file.files:
            seed, i = name.split("/")
            values.setdefault(int(seed), []).append((int(i), file[name]))
    return {seed: [v for _, v in sorted(all_, key=lambda p: p[0])] for seed, all_ in values.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"])
    parser.add_argument("--kernel")
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--write-torch", metavar="FILE")
    parser.add_argument("--write-golden", action="store_true")
    a = parser.parse_args()
    if a.write_torch or a.write_golden:
        write_torch(
            a.write_torch or GOLDEN, a.first, GOLDEN_COUNT if a.write_golden else a.count, a.large
        )
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "torch.npz"
        options = ["--first", str(a.first), "--count", str(a.count), "--write-torch", str(path)]
        options += ["--large"] if a.large else []
        env = dict(os.environ)
        if a.torch != sys.executable:
            env.pop("PYTHONPATH", None)  # mica's interpreter may be another
        subprocess.run([a.torch, __file__, *options], check=True, env=env)
        expected = read(path)
    import mica

    if a.kernel:
        mica.force_kernel("recurrent", a.kernel)
        mica.force_kernel("recurrent_grad", a.kernel)
    failed = 0
    for dtype in a.dtypes:
        errors = {}
        refused = 0
        for seed, values in expected.items():
            c = configuration(seed, a.large)
            if c["mode"] == "RNN_RELU" and "16" in dtype:
                continue  # rounding moves sums over relu's kink, and gradients jump there
            try:
                errors[seed] = largest_error(values, by_mica(c, a.device, dtype))
            except mica.Unsupported:
                if not a.kernel:
                    raise
                refused += 1
        above = [seed for seed, e in errors.items() if not e <= BOUNDS[dtype]]
        failed += len(above)
        worst = max(errors, key=errors.get, default=None)
        what = f"{a.device} {dtype} {a.kernel or ''}"
        counts = f"{len(errors)} configurations, {refused} refused, {len(above)} above"
        end = f"largest error {errors.get(worst, 0):.1e} (seed {worst})"
        print(f"{what}: {counts} {BOUNDS[dtype]:.0e}, {end}", flush=True)
        for seed in above[:5]:
            print(f"  {errors[seed]:.1e} {configuration(seed, a.large)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
