"""Models of ONNX as compiled functions with steps on the host between them."""

import sys
from pathlib import Path

import mica
import numpy as np
import pytest
from conftest import DEVICE
from mica import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "onnx"))
import write
from write import BOOL, FLOAT, INT64, graph, model, node, tensor, value


def tensor_of(values):
    return mica.tensor(values).to(DEVICE)


def simple(nodes, initializers=(), inputs=("x",), outputs=("y",)):
    body = graph(nodes, [value(n) for n in inputs], [value(n) for n in outputs], initializers)
    return onnx.loads(model(body)).to(DEVICE)


def test_an_if_is_decided_on_the_host():
    """An If whose branches differ in shape, between what is compiled."""
    long = graph([node("Concat", ["a", "a"], ["r"], axis=0)], [], [value("r")])
    short = graph([node("ReduceSum", ["a"], ["r"], keepdims=1)], [], [value("r")])
    nodes = [
        node("Mul", ["x", "x"], ["a"]),
        node("ReduceMax", ["a"], ["most"], keepdims=0),
        node("Greater", ["most", "limit"], ["c"]),
        node("If", ["c"], ["b"], "choice", then_branch=long, else_branch=short),
        node("Shape", ["b"], ["size"]),
        node("Cast", ["size"], ["count"], to=FLOAT),
        node("Mul", ["b", "count"], ["y"]),
    ]
    net = simple(nodes, [tensor("limit", [], [10.0])])
    run = onnx.compile(net)
    with mica.no_grad():
        for x in ([1.0, 2.0], [1.0, 4.0], [3.0, 1.0], [0.0, 5.0, 1.0]):
            assert run(tensor_of(x)).tolist() == net(tensor_of(x)).tolist()
    # Before the If, its branches, and after it: for two elements, and for three or four.
    assert run.count == 4
    before, captures = run.count, run.captures
    with mica.no_grad():
        assert run({"x": tensor_of([1.0, 3.0])}).tolist() == [10]
        assert run(tensor_of([1.0, 4.0])).tolist() == [4, 64, 4, 64]
    assert (run.count, run.captures) == (before, captures)


def test_a_loop_counts_on_the_host():
    """A Loop whose count is an input, and that may end earlier."""
    body = graph(
        [
            node("Add", ["v", "weight"], ["w"]),
            node("ReduceSum", ["w"], ["total"], keepdims=0),
            node("Less", ["total", "limit"], ["go_on"]),
            node("Cast", ["i"], ["round"], to=FLOAT),
        ],
        [value("i", INT64, []), value("go", BOOL, []), value("v")],
        [value("go_on", BOOL, []), value("w"), value("total"), value("round")],
    )
    net = simple(
        [
            node("Loop", ["n", "", "x"], ["last", "totals", "rounds"], body=body),
            node("Neg", ["last"], ["y"]),
        ],
        [tensor("weight", [2], [1.0, 2.0]), tensor("limit", [], [100.0])],
        inputs=("x", "n"),
        outputs=("y", "totals", "rounds"),
    )
    run = onnx.compile(net)
    x = tensor_of([0.5, 0.25])
    with mica.no_grad():
        for count in (3, 1, 5, 1000):
            got, want = run(x, tensor_of(count)), net(x, tensor_of(count))
            assert [t.tolist() for t in got] == [t.tolist() for t in want]
        assert run.captures <= 4  # not one for each round
        net.weight.fill_(10.0)
        assert run(x, tensor_of(1))[0].tolist() == [-10.5, -10.25]
    x.requires_grad = True
    run(x, tensor_of(4))[0].sum().backward()
    assert x.grad.tolist() == [-1, -1]


def test_a_model_without_control_flow():
    net = onnx.loads(write.classifier()).to(DEVICE)
    run = onnx.compile(net)
    with mica.no_grad():
        for rows in (2, 7, 2):
            x = mica.randn(rows, 3, device=DEVICE)
            np.testing.assert_allclose(
                run(x).cpu().numpy(), net(x).cpu().numpy(), rtol=1e-5, atol=1e-6
            )
    assert (run.count, run.captures) == (1, 2)
    with pytest.raises(mica.ShapeError, match=r"onnx: node .*\(Gemm\)"):
        run(mica.ones(1, 4, device=DEVICE))
    with pytest.raises(mica.Error, match="that load gave"):
        onnx.compile(mica.nn.Linear(2, 2))


def test_what_has_no_shape_before_it_runs():
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("NonZero", ["a"], ["where"], "places"),
        node("Cast", ["where"], ["y"], to=FLOAT),
    ]
    net = simple(nodes)
    run = onnx.compile(net)
    for x in ([1.0, -1.0, 2.0], [-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]):
        assert run(tensor_of(x)).tolist() == net(tensor_of(x)).tolist()
    assert run.count == 2


def test_what_reads_bytes():
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("BitCast", ["a"], ["bits"], "bytes", to=INT64),
        node("Add", ["bits", "bits"], ["y"]),
    ]
    net = simple(nodes)
    run = onnx.compile(net)
    x = tensor_of(np.array([1.0, -2.0, 0.5]))
    assert run(x).tolist() == net(x).tolist() == (2 * np.array([1.0, 0, 0.5]).view("i8")).tolist()
    assert run.count == 2
    with pytest.raises(mica.Error, match=r"bytes \(BitCast\)|BitCast reads bytes"):
        mica.compile(net)(x)
