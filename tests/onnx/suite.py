"""onnx's own backend suite on mica: python tests/onnx/suite.py [--filter TEXT] [--verbose]

Needs the packages of scripts/requirements-onnx.txt. exclusions.txt beside it says by reason which
tests are not run.
"""

from __future__ import annotations

import argparse
import re
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


def to_mica(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [to_mica(v) for v in value]
    array = numpy.asarray(value)
    if array.dtype.name == "bfloat16":
        return mica.tensor(array.astype(numpy.float32)).to(mica.bfloat16)
    return mica.tensor(array)


def to_numpy(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [to_numpy(v) for v in value]
    if value.dtype == mica.bfloat16:
        import ml_dtypes

        return value.to(mica.float32).numpy().astype(ml_dtypes.bfloat16)
    return value.detach().numpy()


class MicaRep(BackendRep):  # type: ignore[misc]
    def __init__(self, module: Any) -> None:
        self.module = module

    def run(self, inputs: Any, **kwargs: Any) -> list[Any]:
        result = self.module(*[to_mica(v) for v in inputs])
        outputs = mica.onnx.output_names(self.module)
        return [to_numpy(v) for v in (result if len(outputs) > 1 else [result])]


class MicaBackend(Backend):  # type: ignore[misc]
    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> MicaRep:
        return MicaRep(mica.onnx.loads(model.SerializeToString()))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


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


class Results(unittest.TestResult):
    def __init__(self, verbose: bool) -> None:
        super().__init__()
        self.passed: list[str] = []
        self.verbose = verbose

    def addSuccess(  # noqa: N802 (unittest names it)
        self,
        test: unittest.TestCase,
    ) -> None:
        self.passed.append(test.id().rsplit(".", 1)[-1])

    def failed(self) -> list[tuple[str, str]]:
        return [(t.id().rsplit(".", 1)[-1], e.strip()) for t, e in self.errors + self.failures]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="", help="run what has this in its name")
    parser.add_argument("--verbose", action="store_true", help="whole errors")
    options = parser.parse_args()
    suite = BackendTest(MicaBackend, __name__)
    tests = [
        test
        for test in suite.test_suite
        if test.id().endswith("_cpu") and options.filter in test.id()
    ]
    left_out: dict[str, int] = {}
    kept = []
    patterns = [(reason, re.compile(pattern)) for reason, pattern in exclusions()]
    for test in tests:
        name = test.id().rsplit(".", 1)[-1].removesuffix("_cpu")
        reason = next((r for r, p in patterns if p.fullmatch(name)), None)
        if reason is None:
            kept.append(test)
        else:
            left_out[reason] = left_out.get(reason, 0) + 1
    results = Results(options.verbose)
    for test in kept:
        test.run(results)
    failed = results.failed()
    for name, error in failed:
        print(f"{name}: {error if options.verbose else error.splitlines()[-1][:300]}")
    for reason, count in left_out.items():
        print(f"not run: {count:4d} {reason}")
    passed = len(results.passed)
    with_dtypes = len(tests) - sum(n for r, n in left_out.items() if r.startswith("dtype"))
    print(
        f"onnx {onnx.__version__}: {passed} passed, {len(failed)} failed, "
        f"{len(results.skipped)} skipped by the suite"
    )
    print(
        f"{100 * passed / max(with_dtypes, 1):.1f} % of the {with_dtypes} tests whose dtypes mica "
        f"has, {100 * passed / max(len(tests), 1):.1f} % of all {len(tests)}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
