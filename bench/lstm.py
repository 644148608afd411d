"""Layers of LSTM in mica, by each of its kernels, beside PyTorch's (cuDNN), on one CUDA device.

    PYTHONPATH=build/cuda/python python bench/lstm.py [--batch 32 64 128 256] [--precision f16 …]

One JSON line for each: milliseconds of a forward pass and of a forward and backward pass, the
shortest of several groups. 512 steps, 4 layers of 512, unless --steps, --layers and --units say
otherwise; --device cpu compares on the CPU. Where the two want different versions of cuDNN,
--peers mica and --peers torch run them one by one.

    python bench/lstm.py --draw OUT.svg < LINES

makes a picture of such lines.
"""

import argparse
import contextlib
import importlib.util
import json
import sys
import time
from pathlib import Path

PASSES = {"forward_ms": "forward", "training_ms": "training"}
KERNELS = {"cuda": ["persistent", "gemm", "cudnn"], "cpu": ["onednn", "gemm"]}


def best(call, wait, groups=5, calls=3):
    call()
    call()
    wait()
    seconds = []
    for _ in range(groups):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        seconds.append((time.perf_counter() - start) / calls)
    return 1e3 * min(seconds)


def by_torch(a, batch, precision):
    import torch

    cuda = a.device == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    lstm = torch.nn.LSTM(a.units, a.units, a.layers).to(a.device, dtype)
    x = torch.rand(a.steps, batch, a.units, device=a.device, dtype=dtype) * 2 - 1
    dy = torch.rand_like(x) * 2 - 1
    wait = torch.cuda.synchronize if cuda else lambda: None

    def forward():
        with torch.no_grad():
            lstm(x)

    grown = x.clone().requires_grad_()

    def train():
        y, _ = lstm(grown)
        torch.autograd.grad(y, [grown, *lstm.parameters()], dy)

    times = best(forward, wait), best(train, wait)
    return [("PyTorch " + torch.__version__, *times)]


def times_in_mica(a, batch, dtype):
    import mica

    wait = mica.cuda.synchronize if a.device == "cuda" else lambda: None
    lstm = mica.nn.LSTM(a.units, a.units, a.layers)
    lstm.to(a.device).to(dtype)
    x = (mica.rand(a.steps, batch, a.units, device=a.device) * 2 - 1).to(dtype)
    dy = (mica.rand(a.steps, batch, a.units, device=a.device) * 2 - 1).to(dtype)

    @mica.compile
    def forward(x):
        with mica.no_grad():
            return lstm(x)[0]

    @mica.compile
    def train(x, dy):  # of a tensor outside, the forward pass could be computed once for all
        x = x.detach()
        x.requires_grad = True
        return mica.autograd.grad([lstm(x)[0]], [x, *lstm.parameters()], [dy])

    forward_ms = best(lambda: forward(x), wait)
    try:
        return forward_ms, best(lambda: train(x, dy), wait)
    except mica.Unsupported:  # a kernel without gradient
        return forward_ms, None


def by_mica(a, batch, precision):
    import mica

    mica.set_allow_tf32(precision == "tf32")
    dtype = {"f16": mica.float16, "bf16": mica.bfloat16}.get(precision, mica.float32)
    rows = []
    for kernel in KERNELS[a.device]:
        mica.force_kernel("recurrent", kernel)
        mica.force_kernel("recurrent_grad", kernel)
        with contextlib.suppress(mica.Unsupported):  # not of this precision
            rows.append(("mica " + kernel, *times_in_mica(a, batch, dtype)))
    mica.force_kernel("recurrent", "")
    mica.force_kernel("recurrent_grad", "")
    return rows


def picture(rows):
    """Bars, of each batch and precision together; mica's are dark."""
    width, bar, label = 720, 18, 240
    parts, y = [], 20
    kinds = [(p, pass_) for p in dict.fromkeys(r["precision"] for r in rows) for pass_ in PASSES]
    for precision, pass_ in kinds:
        shown = [r for r in rows if r["precision"] == precision and pass_ in r]
        longest = max(r[pass_] for r in shown)
        title = f"LSTM, {precision}, {PASSES[pass_]}, ms"
        parts.append(f'<text x="8" y="{y}" font-weight="bold">{title}</text>')
        for batch in sorted({r["batch"] for r in shown}):
            y += 8
            parts.append(f'<text x="8" y="{y + 14}">batch {batch}</text>')
            for row in sorted((r for r in shown if r["batch"] == batch), key=lambda r: -r[pass_]):
                length = (width - label - 60) * row[pass_] / longest
                colour = "#1f6f8b" if row["peer"].startswith("mica") else "#b8c4c9"
                parts.append(
                    f'<text x="{label - 8}" y="{y + 14}" text-anchor="end">{row["peer"]}</text>'
                    f'<rect x="{label}" y="{y + 2}" width="{length:.1f}" height="{bar - 4}" '
                    f'fill="{colour}"/>'
                    f'<text x="{label + length + 6:.1f}" y="{y + 14}">{row[pass_]:.1f}</text>'
                )
                y += bar
        y += 34
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y - 20}" '
        'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(parts)}</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--precision", nargs="+", default=["f16", "bf16", "tf32", "f32"])
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--units", type=int, default=512)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--peers", nargs="+", default=["mica", "torch"])
    parser.add_argument("--draw", type=Path, metavar="OUT.svg")
    a = parser.parse_args()
    if a.draw:
        a.draw.write_text(picture([json.loads(line) for line in sys.stdin]))
        return
    peers = {"mica": by_mica, "torch": by_torch}
    sides = [peers[name] for name in a.peers if importlib.util.find_spec(name)]
    for precision in a.precision:
        for batch in a.batch:
            for side in sides:
                for name, forward, training in side(a, batch, precision):
                    line = {"peer": name, "precision": precision, "batch": batch}
                    line["forward_ms"] = round(forward, 3)
                    if training:
                        line["training_ms"] = round(training, 3)
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
