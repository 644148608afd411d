"""What is to be known of an operator or a dtype is said once: in its definition, in the one table.

Read off the sources, as the includes are: a line that asks otherwise has its reason here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"

pytestmark = pytest.mark.skipif(not SOURCES.is_dir(), reason="the sources are not here")

NAME_ASKED = re.compile(r"\b(?:op|def)(?:->|\.)name\)?\s*[!=]=|\bis\(\*?\w+, \"")
NAMES_WITH_REASON = {
    "graph/passes/join_patterns.cpp": "a pattern names the calls it stands for, in its room",
    "inference/quantize.cpp": "the sum that a library's kernel of bytes takes in",
}

DTYPES_WITH_REASON = {
    "core/dtype_switch.h": "the one that calls with a C++ type",
    "runtime/cuda/types.cuh": "the same with CUDA's types",
    "distributed/nccl/library.cpp": "NCCL's numbers",
    "ops/recurrent/cuda_cudnn.cpp": "cuDNN's numbers",
    "ops/matmul/cuda_lt.cpp": "cuBLAS's numbers",
    "onnx/tensors.cpp": "the fields of a TensorProto",
    "ops/copy/cuda.cu": "which dtypes are read by vectors, and which one by one",
    "ops/reduce/cpu_engine.h": "which values stand for several dtypes: less is compiled",
    "ops/reduce/cuda_source.cuh": "which sources stand for several dtypes: less is compiled",
    "ops/gather/cuda_indexed.cuh": "an index past int64 is outside of every axis",
    "ops/gather/cpu_indexed.cpp": "pairs of dtypes: sums of halves are floats",
    "ops/cross_entropy/targets.h": "the three dtypes that targets have",
}

# Files of rooms that are no kernels and ask where a tensor lies.
DEVICES_WITH_REASON = {
    "ops/copy/copy.cpp": "copies between devices",
    "ops/fill/fill.cpp": "writes numbers of the host",
    "ops/index/key.cpp": "takes arrays of the host to the tensor",
    "ops/elementwise/elementwise.cpp": "reads a number that the host has",
    "ops/sparse/sparse_tensor.cpp": "checks indices at once where that waits for nobody",
    "ops/fft/fft.cpp": "cuFFT transforms three axes at once, pocketfft any number",
    "ops/all_ops.cpp": "the lists of the CPU's kernels",
    "ops/device_table.cpp": "a GPU's row",
}


def lines(*folders: str):
    for folder in folders:
        for path in sorted((SOURCES / folder).rglob("*")):
            if path.suffix in {".h", ".cpp", ".cu", ".cuh"}:
                name = path.relative_to(SOURCES).as_posix()
                for number, line in enumerate(path.read_text().splitlines(), 1):
                    yield name, number, line


def asked(found, reasons: dict[str, str]) -> list[str]:
    """What has no reason; a reason that nothing needs is none."""
    files = {name for name, _, _ in found}
    return [
        f"{name}:{number}: {line.strip()}" for name, number, line in found if name not in reasons
    ] + [f"{name} has a reason and asks nothing" for name in sorted(set(reasons) - files)]


def test_no_operator_is_known_by_its_name() -> None:
    found = [
        (name, number, line)
        for name, number, line in lines(
            "graph",
            "op",
            "autograd",
            "profile",
            "inference",
            "nn",
            "optim",
            "amp",
            "train",
            "runtime",
        )
        if NAME_ASKED.search(line)
    ]
    wrong = asked(found, NAMES_WITH_REASON)
    assert not wrong, "\n".join(wrong)


def test_dtypes_are_told_apart_by_the_table() -> None:
    found = [
        (name, number, line)
        for name, number, line in lines("")
        if re.search(r"\bcase DType::", line)
    ]
    wrong = asked(found, DTYPES_WITH_REASON)
    assert not wrong, "\n".join(wrong)


def test_operators_and_gradients_do_not_branch_on_the_device() -> None:
    question = re.compile(r"\bis_(?:cpu|cuda|null)\(\)|DeviceKind::")
    kernels = re.compile(
        r"/(?:cpu|cuda)(?:_[^/]*|\.cuh?|\.cpp)?$|/(?:cpu|cuda)_|_cuda\.|communicator|collective/"
    )
    found = [
        (name, number, line)
        for name, number, line in lines("ops")
        if question.search(line) and not kernels.search(name)
    ]
    wrong = asked(found, DEVICES_WITH_REASON)
    assert not wrong, "\n".join(wrong)


def test_questions_are_seen() -> None:
    assert NAME_ASKED.search('if (std::string_view(node.op->name) == "add") return;')
    assert NAME_ASKED.search("return node.op->name == op;")
    assert NAME_ASKED.search('return is(node, "permute");')
    assert not NAME_ASKED.search('fmt::format("{}", node.op->name)')
