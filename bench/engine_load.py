"""How long an engine's file takes to load on the CPU, beside what reading its bytes takes.

    PYTHONPATH=build/release/python python bench/engine_load.py [--rounds 7]

Processor time, medians of the rounds after the first one of a process, in which the system clears
the memory; that one is told beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import mica

NETWORKS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "lenet": (mica.models.lenet, (1, 1, 28, 28)),
    "resnet18": (mica.models.resnet18, (1, 3, 224, 224)),
    "resnet50": (mica.models.resnet50, (1, 3, 224, 224)),
}


def milliseconds(call: Any, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds + 1):
        begin = time.process_time()
        made = call()
        times.append(1e3 * (time.process_time() - begin))
        del made
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, (network, shape) in NETWORKS.items():
            path = Path(folder) / f"{name}.mica"
            mica.inference.optimize(network().eval(), mica.zeros(*shape)).save(path)
            row: dict[str, Any] = {"network": name, "mb": round(path.stat().st_size / 1e6, 1)}
            calls = {"load": mica.inference.load, "read": mica.io.load_safetensors}
            for what, call in calls.items():
                first, *rest = milliseconds(lambda call=call, path=path: call(path), args.rounds)
                row[f"{what}_ms"] = round(statistics.median(rest), 2)
                row[f"{what}_first_ms"] = round(first, 2)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
