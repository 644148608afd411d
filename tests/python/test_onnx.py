"""Models of ONNX as modules."""

import sys
from pathlib import Path

import mica
import numpy as np
import pytest
from conftest import DEVICE
from mica import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "onnx"))
import write
from write import FLOAT, INT64, graph, model, node, number, part, tensor, value

pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="made on the host")


def simple(nodes, initializers=(), inputs=("x",), outputs=("y",), opset=17):
    return onnx.loads(
        model(
            graph(nodes, [value(n) for n in inputs], [value(n) for n in outputs], initializers),
            opset,
        )
    )


def expected_of_classifier(net, x):
    state = {k: v.numpy() for k, v in net.state_dict().items()}
    hidden = np.maximum(x @ state["fc.0.weight"].T + state["fc.0.bias"], 0)
    return (hidden @ state["head"]).reshape(-1, 2, 1)


def test_a_model_from_a_file_computes(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(write.classifier())
    net = onnx.load(path)
    assert not net.training
    assert onnx.input_names(net) == ["x"] and onnx.output_names(net) == ["y"]
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    for result in (net(mica.tensor(x)), net({"x": mica.tensor(x)})):
        np.testing.assert_allclose(
            result.detach().numpy(), expected_of_classifier(net, x), rtol=1e-5, atol=1e-6
        )


def test_weights_are_parameters_of_their_names():
    net = onnx.loads(write.classifier())
    assert sorted(net.state_dict()) == ["fc.0.bias", "fc.0.weight", "head"]
    assert all(p.requires_grad for p in net.parameters())


def test_it_learns():
    net = onnx.loads(write.classifier())
    x, target = mica.randn(16, 3), mica.randn(16, 2, 1)
    opt = mica.optim.SGD(net.parameters(), lr=0.05)

    @mica.compile
    def step(x, target):
        loss = (net(x) - target).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    losses = [step(x, target).item() for _ in range(30)]
    assert losses[-1] < 0.9 * losses[0] and step.captures == 1


def test_compiled_shapes_follow_the_input():
    net = onnx.loads(write.classifier())
    run = mica.compile(lambda x: net(x))
    with mica.no_grad():
        for rows in (2, 7):
            x = mica.randn(rows, 3)
            assert run(x).shape == (rows, 2, 1)
            np.testing.assert_allclose(run(x).numpy(), net(x).numpy(), rtol=1e-5, atol=1e-6)


def test_a_parameter_that_is_replaced_is_used():
    net = onnx.loads(write.classifier())
    net.head = mica.nn.Parameter(mica.zeros(4, 2))
    assert net(mica.ones(1, 3)).abs().sum().item() == 0


def test_control_flow():
    net = onnx.loads(write.branches())
    x = mica.tensor([1.0, 2.0])
    y, totals = net(x, mica.tensor(True))
    assert y.tolist() == [9, 17] and totals.tolist() == [6, 12, 24]
    y, _ = net({"flag": mica.tensor(False), "x": x})
    assert y.tolist() == [7, 15]
    x.requires_grad = True
    net(x, mica.tensor(True))[0].sum().backward()
    assert x.grad.tolist() == [8, 8]


def test_a_condition_that_a_compiled_function_is_given():
    net = onnx.loads(write.branches())
    run = mica.compile(lambda x, flag: net(x, flag)[0])
    x = mica.tensor([1.0, 2.0])
    with mica.no_grad():
        assert run(x, mica.tensor(True)).tolist() == [9, 17]
        assert run(x, mica.tensor(False)).tolist() == [7, 15] and run.captures == 1
    net.train()  # a branch that is not taken must not follow the batch
    with pytest.raises(mica.Unsupported, match=r"node choice \(If\): its condition is not known"):
        mica.compile(lambda x, flag: net(x, flag))(x, mica.tensor(True))


def test_branches_of_other_shapes_cannot_be_compiled():
    whole = graph([node("Identity", ["x"], ["r"])], [], [value("r")])
    total = graph([node("ReduceSum", ["x"], ["r"])], [], [value("r")])
    net = simple(
        [node("If", ["c"], ["y"], "choice", then_branch=whole, else_branch=total)],
        inputs=("x", "c"),
    )
    assert net(mica.ones(3), mica.tensor(False)).tolist() == [3]
    with pytest.raises(mica.Unsupported, match=r"node choice .* its branches give"):
        mica.compile(lambda x, c: net(x, c))(mica.ones(3), mica.tensor(True))


def test_everything_unsupported_is_listed():
    nodes = [
        node("Nonsense", ["x"], ["a"], "first"),
        node("Relu", ["a"], ["b"]),
        node("Gibberish", ["b"], ["c"], "second"),
        node("Nonsense", ["c"], ["y"], "third"),
    ]
    with pytest.raises(mica.Unsupported) as caught:
        simple(nodes)
    text = str(caught.value)
    assert "Nonsense: first, third" in text and "Gibberish: second" in text and "Relu" not in text


def test_errors_name_the_node_and_the_input():
    net = simple([node("MatMul", ["x", "w"], ["y"], "product")], [tensor("w", [3, 2], [0.0] * 6)])
    with pytest.raises(mica.ShapeError, match=r"onnx: node product \(MatMul\): "):
        net(mica.ones(1, 4))
    with pytest.raises(mica.Error, match="has no input 'z'; its inputs are x"):
        net({"z": mica.ones(1, 3)})
    with pytest.raises(mica.Error, match="takes 1 inputs"):
        net(mica.ones(1, 3), mica.ones(1), mica.ones(1))


def test_a_name_that_nothing_gives_is_an_error():
    with pytest.raises(mica.IoError, match="node lost reads 'nowhere'"):
        simple([node("Relu", ["nowhere"], ["y"], "lost")])


def test_external_data_stay_in_the_folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    weights = np.arange(3, dtype=np.float32)
    (folder / "weights.bin").write_bytes(b"1234" + weights.tobytes())
    (tmp_path / "secret.bin").write_bytes(weights.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")

    def load(location, offset="0", length="12"):
        entries = [("location", location), ("offset", offset), ("length", length)]
        external = b"".join(part(13, part(1, k) + part(2, v)) for k, v in entries)
        w = number(1, 3) + number(2, FLOAT) + part(8, "w") + external + number(14, 1)
        path = folder / "net.onnx"
        path.write_bytes(
            model(graph([node("Add", ["x", "w"], ["y"])], [value("x")], [value("y")], [w]))
        )
        return onnx.load(path)

    assert load("weights.bin", "4")(mica.zeros(3)).tolist() == [0, 1, 2]
    for outside in ("../secret.bin", str(tmp_path / "secret.bin"), "link.bin", "", "a/../../x"):
        with pytest.raises(mica.IoError, match=r"tensor 'w': external data in .*folder"):
            load(outside)
    with pytest.raises(mica.IoError, match="external data at byte 8 of 12 bytes"):
        load("weights.bin", "8")
    with pytest.raises(mica.IoError, match="needs 12 bytes, and its external data have 8"):
        load("weights.bin", "0", "8")
    with pytest.raises(mica.IoError, match="'-4' for offset"):
        load("weights.bin", "-4")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no ONNX model"),
        (b"\x89PNG\r\n\x1a\n", "onnx: "),
        (part(7, b"\xff" * 20), "does not end"),
        (b"\x3a\xff\xff\xff\xff\x0f", "a field of 4294967295 bytes where 0 are left"),
        (model(graph([], [], [value("y")])), "the model gives 'y'"),
        (model(graph([], [], [], [tensor("w", [1 << 40, 1 << 40], [])])), "larger than memory"),
        (model(graph([], [], [], [tensor("w", [-1], [])])), "a size of -1"),
        (model(graph([], [], [], [tensor("w", [3], [1.0])])), "needs 12 bytes, got 4"),
        (model(graph([], [], [], [tensor("w", [1] * 9, [1.0])])), "has 9 axes"),
    ],
)
def test_bad_files(data, message, tmp_path):
    path = tmp_path / "bad.onnx"
    path.write_bytes(data)
    with pytest.raises(mica.IoError, match=message) as caught:
        onnx.load(path)
    assert str(path) in str(caught.value)


def test_messages_nested_too_deep():
    body = graph([node("Identity", ["x"], ["y"])], [], [value("y")])
    for _ in range(40):
        body = graph([node("If", ["c"], ["y"], then_branch=body, else_branch=body[:0])], [], [])
    with pytest.raises(mica.IoError, match="nested deeper than 64"):
        onnx.loads(model(body))


def test_many_empty_entries_stay_within_a_budget():
    with pytest.raises(mica.IoError, match="more entries than a file of its size"):
        onnx.loads(part(7, part(5, b"") * 300_000))


def test_functions_of_the_model():
    """Its operator `twice` calls `add_to`, with an attribute of the call."""

    def function(name, inputs, outputs, nodes, attributes=()):
        return (
            part(1, name)
            + part(10, "own")
            + b"".join(part(4, i) for i in inputs)
            + b"".join(part(5, o) for o in outputs)
            + b"".join(part(6, a) for a in attributes)
            + b"".join(part(7, n) for n in nodes)
            + part(9, number(2, 17))
            + part(9, part(1, "own") + number(2, 1))
        )

    def own(data):
        return data + part(7, "own")

    slope = part(5, part(1, "alpha") + part(21, "slope") + number(20, 1))
    leak = function("leak", ["a"], ["b"], [node("LeakyRelu", ["a"], ["b"]) + slope], ["slope"])
    twice = function(
        "twice",
        ["a"],
        ["c"],
        [own(node("leak", ["a"], ["b"], slope=0.5)), own(node("leak", ["b"], ["c"], slope=0.25))],
    )
    body = graph([own(node("twice", ["x"], ["y"]))], [value("x")], [value("y")])
    net = onnx.loads(model(body, 17, part(25, leak) + part(25, twice)))
    assert net(mica.tensor([-8.0, 4.0])).tolist() == [-1, 4]
    endless = function("twice", ["a"], ["c"], [own(node("twice", ["a"], ["c"]))])
    with pytest.raises(mica.IoError, match="function twice calls itself"):
        onnx.loads(model(body, 17, part(25, endless)))


def test_batch_norm_and_dropout_follow_the_mode():
    ones = tensor("s", [2], [1.0, 1.0])
    nodes = [
        node("BatchNormalization", ["x", "s", "b", "mean", "var"], ["n"]),
        node("Dropout", ["n"], ["y"]),
    ]
    zeros = [tensor(name, [2], [0.0, 0.0]) for name in ("b", "mean")]
    net = simple(nodes, [ones, *zeros, tensor("var", [2], [1.0, 1.0])])
    x = mica.randn(64, 2) * 3 + 5
    np.testing.assert_allclose(net(x).detach().numpy(), x.numpy(), rtol=1e-4)
    net.train()
    y = net(x).detach().numpy()
    assert (y == 0).mean() > 0.2 and abs(y.mean()) < 1
    assert dict(net.named_buffers())["mean"].abs().min().item() > 0.1
    assert [name for name, _ in net.named_parameters()] == ["s", "b"]


@pytest.mark.parametrize("opset", [6, 13])
def test_softmax_by_version(opset):
    net = simple([node("Softmax", ["x"], ["y"], axis=1)], opset=opset)
    x = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
    axes = (1, 2) if opset < 13 else 1
    e = np.exp(x)
    np.testing.assert_allclose(
        net(mica.tensor(x)).numpy(), e / e.sum(axes, keepdims=True), rtol=1e-5
    )


def test_integers_divide_towards_zero():
    net = simple([node("Div", ["x", "z"], ["y"])], inputs=("x", "z"))
    a, b = mica.tensor([7, -7, 7, -7, -8]), mica.tensor([2, 2, -2, -2, 4])
    assert net(a, b).tolist() == [3, -3, -3, 3, -2]


@pytest.mark.parametrize(
    ("starts", "ends", "steps", "want"),
    [
        ([-1], [-(2**62)], [-1], slice(None, None, -1)),
        ([2**40], [-100], [-2], slice(None, None, -2)),
        ([1], [2**63 - 1], [3], slice(1, None, 3)),
        ([-3], [-1], [1], slice(-3, -1)),
        ([4], [2], [1], slice(4, 2)),
    ],
)
def test_slices(starts, ends, steps, want):
    names = {"b": starts, "e": ends, "a": [0], "s": steps}
    net = simple(
        [node("Slice", ["x", "b", "e", "a", "s"], ["y"])],
        [tensor(name, [1], v, INT64) for name, v in names.items()],
    )
    x = np.arange(7, dtype=np.float32)
    assert net(mica.tensor(x)).tolist() == x[want].tolist()


def test_a_constant_that_comes_out_can_be_written_to():
    net = simple(
        [node("Identity", ["w"], ["y"]), node("Relu", ["x"], ["z"])], [tensor("w", [], [2.0])]
    )
    y = net(mica.ones(1))
    y.fill_(7)
    assert net(mica.ones(1)).item() == 2
