"""onnx's own backend suite on mica.

    python tests/onnx/suite.py [--device cuda] [--processes 8] [--filter TEXT] [--verbose]

Needs the packages of scripts/requirements-onnx.txt. exclusions.txt beside it says by reason which
tests are not run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any

import mica
import numpy
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest

import onnx

warnings.filterwarnings("ignore")
EXCLUSIONS = Path(__file__).with_name("exclusions.txt")


def to_mica(value: Any, device: str) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [to_mica(v, device) for v in value]
    array = numpy.asarray(value)
    if array.dtype.name == "bfloat16":
        return mica.tensor(array.astype(numpy.float32)).to(mica.bfloat16).to(device)
    return mica.tensor(array).to(device)


def to_numpy(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [to_numpy(v) for v in value]
    if value.dtype == mica.bfloat16:
        import ml_dtypes

        return value.to(mica.float32).cpu().numpy().astype(ml_dtypes.bfloat16)
    return value.detach().cpu().numpy()


class MicaRep(BackendRep):  # type: ignore[misc]
    def __init__(self, module: Any, device: str) -> None:
        self.module = module
        self.device = device

    def run(self, inputs: Any, **kwargs: Any) -> list[Any]:
        result = self.module(*[to_mica(v, self.device) for v in inputs])
        outputs = mica.onnx.output_names(self.module)
        return [to_numpy(v) for v in (result if len(outputs) > 1 else [result])]


class MicaBackend(Backend):  # type: ignore[misc]
    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> MicaRep:
        module = mica.onnx.loads(model.SerializeToString())
        module.to(device.lower())
        return MicaRep(module, device.lower())

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU" or (device == "CUDA" and mica.cuda.is_available())


def exclusions() -> list[tuple[str, str]]:
    """Pairs of a reason and a pattern: a line that ends in a colon is the reason of those below."""
    found, reason = [], ""
    for line in EXCLUSIONS.read_text().splitlines():
        line = line.strip()
        if line.endswith(":"):
            reason = line[:-1]
        elif line and not line.startswith("#"):
            found.append((reason, line))
    return found


class Report(unittest.TestResult):
    """Prints a line of JSON for each test."""

    def tell(self, test: unittest.TestCase, outcome: str, error: str = "") -> None:
        line = {"test": test.id().rsplit(".", 1)[-1], "outcome": outcome, "error": error.strip()}
        print(json.dumps(line), flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 (unittest names it)
        self.tell(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self.tell(test, "skipped", reason)

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self.tell(test, "failed", self._exc_info_to_string(err, test))

    addFailure = addError  # noqa: N815


def tests_of(device: str, text: str) -> tuple[list[unittest.TestCase], dict[str, int]]:
    """Those to run, and how many are left out for which reason."""
    suite = BackendTest(MicaBackend, __name__)
    patterns = [(reason, re.compile(pattern)) for reason, pattern in exclusions()]
    kept: list[unittest.TestCase] = []
    left_out: dict[str, int] = {}
    for test in suite.test_suite:
        if not test.id().endswith("_" + device) or text not in test.id():
            continue
        name = test.id().rsplit(".", 1)[-1].removesuffix("_" + device)
        reason = next((r for r, p in patterns if p.fullmatch(name)), None)
        if reason is None:
            kept.append(test)
        else:
            left_out[reason] = left_out.get(reason, 0) + 1
    return kept, left_out


def run_shard(device: str, text: str, shard: int, shards: int) -> None:
    """Every so many-th test."""
    kept, left_out = tests_of(device, text)
    print(json.dumps({"kept": len(kept), "left_out": left_out}), flush=True)
    report = Report()
    for test in kept[shard::shards]:
        test.run(report)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--processes", type=int, default=1, help="that share the tests")
    parser.add_argument("--filter", default="", help="run what has this in its name")
    parser.add_argument("--verbose", action="store_true", help="whole errors")
    parser.add_argument("--shard", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.shard is not None:
        run_shard(options.device, options.filter, options.shard, options.processes)
        return 0
    command = [sys.executable, __file__, "--device", options.device, "--filter", options.filter]
    command += ["--processes", str(options.processes), "--shard"]
    shards = [
        subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True)
        for i in range(options.processes)
    ]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    about: dict[str, Any] = {"kept": 0, "left_out": {}}
    for shard in shards:
        for text in shard.communicate()[0].splitlines():
            if not text.startswith("{"):
                continue
            line = json.loads(text)
            if "kept" in line:
                about = line
                continue
            counts[line["outcome"]] += 1
            if line["outcome"] == "failed":
                error = line["error"]
                print(f"{line['test']}: {error if options.verbose else error[-300:]}")
        if shard.returncode:
            print(f"a process ended with {shard.returncode} before it had run all of its tests")
    for reason, count in about["left_out"].items():
        print(f"not run: {count:4d} {reason}")
    lost = about["kept"] - sum(counts.values())
    total = about["kept"] + sum(about["left_out"].values())
    no_dtypes = sum(n for r, n in about["left_out"].items() if r.startswith("dtype"))
    print(
        f"onnx {onnx.__version__} on {options.device}: {counts['passed']} passed, "
        f"{counts['failed'] + lost} failed, {counts['skipped']} skipped by the suite"
    )
    known = total - no_dtypes
    print(
        f"{100 * counts['passed'] / max(known, 1):.1f} % of the {known} tests whose dtypes mica "
        f"has, {100 * counts['passed'] / max(total, 1):.1f} % of all {total}"
    )
    return 1 if counts["failed"] + lost else 0


if __name__ == "__main__":
    sys.exit(main())
