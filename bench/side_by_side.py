#!/usr/bin/env python3
r"""Times mica and its peers in one run on one machine, and keeps the answer.

    python3 bench/side_by_side.py --no-compile --out bench/results/training_h200
    python3 bench/side_by_side.py --device cpu --threads 2 --peers torch \
        --out bench/results/training_cpu
    python3 bench/side_by_side.py ops --device cpu --threads 2 --out bench/results/ops_cpu
    python3 bench/side_by_side.py ops --only conv2d --out bench/results/conv_h200
    python3 bench/side_by_side.py --docs    docs/benchmarks.md anew, from bench/results

Writes OUT.json (every measurement, the commands, the machine), OUT.md (a table of ratios) and, for
training, OUT.svg and OUT_lenet.svg (pictures). `mica` must be on PATH; a peer that is not installed
is left out and said so.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKLOADS = {
    "lenet_train": "LeNet, batch 256",
    "lenet_train_b64": "LeNet, batch 64",
    "simple_cnn_train_b256": "simple_cnn, batch 256",
    "simple_cnn_train": "simple_cnn, batch 64",
    "mnist_net_train_b256": "mnist_net, batch 256",
    "mnist_net_train": "mnist_net, batch 64",
    "cifar_cnn_train": "two convolutions on colour images, batch 64",
    "mlp_gelu_train": "MLP with GELU and Adam, batch 64",
}
MODELS = ("lenet", "simple_cnn", "mnist_net")
SIBLINGS = ("cifar_cnn", "mlp_gelu")  # at batch 64 alone
PAGES = {
    "training_cpu": "Training steps on a CPU",
    "ops_cpu": "Operators on a CPU",
    "ops_cpu_xeon": "Operators on another CPU",
    "training_h200": "Training steps on a GPU, PyTorch without torch.compile",
    "foundation_h200": "Training steps on a GPU before and after the second foundation",
    "breakdown_h200": "A training step on a GPU, kernel by kernel",
    "gpt2_h200": "GPT-2 on a GPU",
    "attention_h200": "Attention on a GPU",
    "ops_h200": "Operators on a GPU",
    "eager_add_cpu": "What an eager call costs",
}


FLOOR = """The floor: the bytes that must be read and written at the speed of a copy, or the
multiplications and additions at the speed of a large matrix product of that kind, whichever takes
longer; both speeds measured in the same run.
"""


def commands(what, device, threads, peers, only, compiled):
    if what == "ops":
        some = ["--only", only] if only else []
        yield ["mica", "bench", "ops", "--device", device, "--json", *some]
        peer = [sys.executable, "bench/peers/torch_ops.py", "--device", device, *some]
        yield [*peer, "--threads", str(threads)] if threads else peer
        return
    for models, batches in ((MODELS, "256,64"), (SIBLINGS, "64")):
        ours = [f"{m}_train" for m in models]
        some = ["--device", device, "--batch", batches, "--no-compile-time"]
        yield ["mica", "bench", *ours, *some, "--json"]
    if "torch" in peers:
        peer = [sys.executable, "bench/peers/torch_peer.py", "--device", device, *MODELS]
        peer += SIBLINGS
        if not compiled:
            peer.append("--no-compile")
        yield [*peer, "--threads", str(threads)] if threads else peer
    if "jax" in peers:
        known = [w for w in WORKLOADS if not w.endswith("_b256")]
        yield [sys.executable, "bench/peers/jax_peer.py", *known]


def measure(commands, repeats, threads, key):
    """Runs the commands by turns, `repeats` times; each measurement is the median of its runs."""
    runs = {}
    for command in commands * repeats:
        print("$", " ".join(command), file=sys.stderr, flush=True)
        # A peer without a cache of its own for CPU memory may keep its pages too: fresh ones cost
        # more than most operators.
        keep = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
        env = {**os.environ, **keep, "PYTHONUNBUFFERED": "1"}
        if threads:
            env["OMP_NUM_THREADS"] = str(threads)
        result = subprocess.run(command, cwd=HERE.parent, env=env, capture_output=True, text=True)
        for line in result.stdout.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                runs.setdefault((row["peer"], row["workload"], row["variant"]), []).append(row)
        if result.returncode != 0:
            print(result.stderr[-2000:], file=sys.stderr)
    for rows in runs.values():
        rows.sort(key=lambda row: row[key])
        yield {**rows[len(rows) // 2], "runs": [row[key] for row in rows]}


def machine(device):
    if device == "cuda":
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True).stdout.strip()
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def name_of(row):
    variant = row["variant"].replace("compiled-10", "compiled, 10 steps a launch")
    return f"{row['peer'].split('+')[0]} {variant}"


def table(rows):
    """Ratios to the faster of mica's compiled steps: of single launches, or of ten in one."""
    lines = ["| workload | who | µs per step | mica's best is |", "|---|---|---|---|"]
    for workload, title in WORKLOADS.items():
        of_workload = [r for r in rows if r["workload"] == workload]
        best = min((r["us_per_step"] for r in of_workload if r["peer"] != "mica"), default=0)
        ours = min((r["us_per_step"] for r in of_workload if r["peer"] == "mica"), default=0)
        for row in sorted(of_workload, key=lambda r: -r["us_per_step"]):
            ratio = row["us_per_step"] / ours if ours else 0
            name = name_of(row)
            if row["us_per_step"] == best:
                name = f"**{name}**"
            lines.append(
                f"| {title} | {name} | {row['us_per_step']:.0f} | {ratio:.2f} times as fast |"
            )
    return "\n".join(lines) + "\n"


def ops_table(rows):
    """Each operator of ours beside the peer's, and the part of its floor's speed it reaches."""
    ours = {r["variant"]: r for r in rows if r["peer"] == "mica"}
    theirs = {r["variant"]: r for r in rows if r["peer"] != "mica"}
    peer = next(iter(theirs.values()))["peer"] if theirs else "peer"
    lines = [
        f"| operator | mica µs | {peer} µs | mica is | rate | of the floor's speed |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in ours.items():
        other = theirs.get(name)
        times = f"{other['us'] / row['us']:.2f} times as fast" if other else ""
        lines.append(
            f"| {name} | {row['us']:.1f} | {other['us'] if other else 0:.1f} | {times} "
            f"| {row['value']:.0f} {row['unit']} | {row['floor'] / row['us']:.0%} |"
        )
    return "\n".join(lines) + "\n\n" + FLOOR


def picture(rows, where):
    """Bars, longest first; mica's are dark."""
    width, bar, label = 720, 20, 240
    parts, y = [], 34
    for workload, title in WORKLOADS.items():
        of_workload = [r for r in rows if r["workload"] == workload]
        if not of_workload:
            continue
        longest = max(r["us_per_step"] for r in of_workload)
        parts.append(f'<text x="8" y="{y}" font-weight="bold">{title}, µs per training step</text>')
        y += 10
        for row in sorted(of_workload, key=lambda r: -r["us_per_step"]):
            length = (width - label - 60) * row["us_per_step"] / longest
            colour = "#1f6f8b" if row["peer"] == "mica" else "#b8c4c9"
            name = name_of(row)
            parts.append(f'<text x="{label - 8}" y="{y + 15}" text-anchor="end">{name}</text>')
            parts.append(
                f'<rect x="{label}" y="{y + 2}" width="{length:.1f}" height="{bar - 4}" '
                f'fill="{colour}"/>'
            )
            parts.append(
                f'<text x="{label + length + 6:.1f}" y="{y + 15}">{row["us_per_step"]:.0f}</text>'
            )
            y += bar
        y += 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="8" y="14" fill="#666">{where}</text>{"".join(parts)}</svg>\n'
    )


HEAD = """# Benchmarks

Each table was measured in one run on one machine, mica and its peers by turns. Machines are noisy:
read ratios, and those as good to a tenth. `bench/side_by_side.py --docs` writes this page from
[bench/results](../bench/results), which holds every measurement and the commands.
"""


def write_docs():
    """One page of all results."""
    parts = [HEAD]
    for name, title in PAGES.items():
        text = (HERE / "results" / f"{name}.md").read_text().strip()
        lines = text.splitlines()
        if lines[0].startswith("# "):
            text = "\n".join(lines[1:]).strip()
        parts.append(f"## {title}\n\n{text}\n")
    (HERE.parent / "docs" / "benchmarks.md").write_text("\n".join(parts))


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("what", nargs="?", default="training", choices=["training", "ops"])
    p.add_argument("--device", default="cuda")
    p.add_argument("--only", default="", help="of ops: rows whose name contains this text")
    p.add_argument("--threads", type=int, default=0, help="of both sides on the CPU; 0: all")
    p.add_argument("--peers", default="torch,jax", help="which to run, by commas")
    p.add_argument(
        "--no-compile", dest="compiled", action="store_false", help="PyTorch without torch.compile"
    )
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--out", help="where the results go, without an ending")
    p.add_argument("--docs", action="store_true", help="write docs/benchmarks.md and nothing else")
    args = p.parse_args()
    if args.docs:
        return write_docs()
    if not args.out:
        p.error("--out is required")
    peers = args.peers.split(",")
    key = "us" if args.what == "ops" else "us_per_step"
    to_run = list(commands(args.what, args.device, args.threads, peers, args.only, args.compiled))
    said = [" ".join(["python3" if c == sys.executable else c for c in run]) for run in to_run]
    rows = list(measure(to_run, args.repeats, args.threads, key))
    where = machine(args.device)
    out = Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    if args.threads:
        where += f", {args.threads} threads"
    record = {"machine": where, "repeats": args.repeats, "commands": said, "rows": rows}
    out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    head = f"Measured on {where}, medians of {args.repeats} runs, by `bench/side_by_side.py`.\n\n"
    text = ops_table(rows) if args.what == "ops" else table(rows)
    out.with_suffix(".md").write_text(head + text)
    if args.what == "training":
        out.with_suffix(".svg").write_text(picture(rows, where))
        lenet = [r for r in rows if r["workload"].startswith("lenet")]
        out.with_name(f"{out.name}_lenet.svg").write_text(picture(lenet, where))
    print(text)


if __name__ == "__main__":
    main()
