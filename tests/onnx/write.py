"""Models of ONNX as bytes, written by hand: what the tests need of Protocol Buffers."""

from __future__ import annotations

import struct
from typing import Any

FLOAT, INT64, BOOL = 1, 7, 9


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name: str, dims: list[int], values: list[Any], kind: int = FLOAT) -> bytes:
    code = {FLOAT: "f", INT64: "q", BOOL: "?"}[kind]
    raw = struct.pack(f"<{len(values)}{code}", *values)
    sizes = b"".join(number(1, d) for d in dims)
    return sizes + number(2, kind) + part(8, name) + part(9, raw)


def attribute(name: str, value: Any) -> bytes:
    """Of an integer, a float, a text, integers, or a graph in bytes."""
    head = part(1, name)
    if isinstance(value, int):
        return head + number(3, value) + number(20, 2)
    if isinstance(value, float):
        return head + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, str):
        return head + part(4, value) + number(20, 3)
    if isinstance(value, list):
        return head + b"".join(number(8, v) for v in value) + number(20, 7)
    return head + part(6, value) + number(20, 5)


def node(kind: str, inputs: list[str], outputs: list[str], name: str = "", **more: Any) -> bytes:
    return (
        b"".join(part(1, i) for i in inputs)
        + b"".join(part(2, o) for o in outputs)
        + (part(3, name) if name else b"")
        + part(4, kind)
        + b"".join(part(5, attribute(k, v)) for k, v in more.items())
    )


def value(name: str, kind: int = FLOAT, shape: list[int | str] | None = None) -> bytes:
    dims = b"".join(
        part(1, number(1, d) if isinstance(d, int) else part(2, d)) for d in shape or []
    )
    of = number(1, kind) + (part(2, dims) if shape is not None else b"")
    return part(1, name) + part(2, part(1, of))


def graph(
    nodes: list[bytes],
    inputs: list[bytes],
    outputs: list[bytes],
    initializers: list[bytes] | None = None,
    name: str = "graph",
) -> bytes:
    return (
        b"".join(part(1, n) for n in nodes)
        + part(2, name)
        + b"".join(part(5, t) for t in initializers or [])
        + b"".join(part(11, v) for v in inputs)
        + b"".join(part(12, v) for v in outputs)
    )


def model(body: bytes, opset: int = 17, more: bytes = b"") -> bytes:
    return number(1, 8) + part(8, number(2, opset)) + part(7, body) + more


def classifier() -> bytes:
    """relu(x W1 + b1) W2 with dotted names, reshaped by a computation of its own."""
    return model(
        graph(
            [
                node("Gemm", ["x", "fc.0.weight", "fc.0.bias"], ["a"], transB=1),
                node("Relu", ["a"], ["b"]),
                node("MatMul", ["b", "head"], ["c"]),
                node("Shape", ["c"], ["shape"]),
                node("Gather", ["shape", "zero"], ["rows"], axis=0),
                node("Concat", ["rows", "rest"], ["to"], axis=0),
                node("Reshape", ["c", "to"], ["y"]),
            ],
            [value("x", FLOAT, ["n", 3])],
            [value("y")],
            [
                tensor("fc.0.weight", [4, 3], [0.1 * i - 0.5 for i in range(12)]),
                tensor("fc.0.bias", [4], [0.1, 0.2, 0.3, 0.4]),
                tensor("head", [4, 2], [0.2 * i - 0.7 for i in range(8)]),
                tensor("zero", [1], [0], INT64),
                tensor("rest", [2], [2, 1], INT64),
            ],
        )
    )


def branches() -> bytes:
    """x doubled three times by a Loop, then 1 added or taken away by an If."""
    body = graph(
        [
            node("Add", ["v", "v"], ["w"]),
            node("Identity", ["go"], ["still"]),
            node("ReduceSum", ["w"], ["total"], keepdims=0),
        ],
        [value("i", INT64, []), value("go", BOOL, []), value("v")],
        [value("still", BOOL, []), value("w"), value("total")],
    )
    more = graph([node("Add", ["doubled", "one"], ["r"])], [], [value("r")])
    less = graph([node("Sub", ["doubled", "one"], ["r"])], [], [value("r")])
    return model(
        graph(
            [
                node("Loop", ["three", "", "x"], ["doubled", "totals"], body=body),
                node("If", ["flag"], ["y"], "choice", then_branch=more, else_branch=less),
            ],
            [value("x"), value("flag", BOOL, [])],
            [value("y"), value("totals")],
            [tensor("three", [], [3], INT64), tensor("one", [], [1.0])],
        )
    )
