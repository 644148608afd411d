"""A model with two inputs and named outputs, trained from examples of three parts.

The loss is over a dict, metrics and callbacks are Python's, and everything between passes trees.
"""

from typing import NamedTuple

import mica
import numpy as np
import pytest
from mica import data, nn, optim, train


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(3, 8)
        self.right = nn.Linear(2, 8)
        self.mean = nn.Linear(8, 1)
        self.log_var = nn.Linear(8, 1)
        self.dropout = nn.Dropout(0.1)

    def forward(self, a, b):
        h = self.dropout((self.left(a) + self.right(b)).tanh())
        return {"mean": self.mean(h), "log_var": self.log_var(h)}


class Bound(nn.Module):
    """Keeps the log-variance in bounds."""

    def forward(self, mean, log_var):
        return {"mean": mean, "log_var": log_var.tanh() * 3}


def likelihood(out, y):
    error = (y - out["mean"]) ** 2
    return {"fit": (error * (-out["log_var"]).exp()).mean(), "spread": out["log_var"].mean()}


class Bias(train.Metric):
    name = "bias"
    higher_is_better = False

    def update(self, output, target):
        return {"sum": (output["mean"] - target).sum(), "n": mica.ones_like(target).sum()}

    def compute(self, state):
        assert state["sum"].dtype == mica.float64 and state["sum"].device.type == "cpu"
        return abs(state["sum"].item() / state["n"].item())


class Examples(data.Dataset):
    """(a, b, y) one by one, with NumPy's arrays and lists among them."""

    def __init__(self, arrays):
        super().__init__()
        self.arrays = arrays

    def __len__(self):
        return len(self.arrays[0])

    def __getitem__(self, i):
        a, b, y = (array[i] for array in self.arrays)
        return a, [float(v) for v in b], y


def arrays(n, seed):
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
    b = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
    return a, b, (a.sum(1, keepdims=True) - b.sum(1, keepdims=True) / 2).astype(np.float32)


@pytest.fixture(autouse=True)
def deterministic():
    mica.set_deterministic(True)
    yield
    mica.set_deterministic(False)


def fit(device, *, make=tuple, resident=False, **options):
    mica.manual_seed(3)
    net = nn.Sequential(Encoder(), Bound()).to(device)
    optimizer = optim.Adam(net.parameters(), lr=0.02)
    loaders = [
        data.DataLoader(make(arrays(n, n)), batch, shuffle=s, device=device, resident=resident)
        for n, batch, s in ((200, 16, 7), (90, 32, False))
    ]
    options = {"epochs": 3, "loss": likelihood, "metrics": [Bias()], **options}
    trainer = train.Trainer(net, optimizer, progress=False, **options)
    outcome = trainer.fit(*loaders)
    weights = np.concatenate([p.detach().cpu().numpy().ravel() for p in net.parameters()])
    return outcome, weights


def as_dict(parts):
    a, b, y = parts
    return {"a": a, "target": y, "b": b}


class Triple(NamedTuple):
    a: np.ndarray
    b: np.ndarray
    y: np.ndarray


@pytest.mark.parametrize("resident", [False, True])
def test_eager_and_compiled_end_with_the_same_bits(device, resident):
    eager, expected = fit(device, compile=False)
    assert eager.epochs[-1].test_loss < eager.epochs[0].test_loss
    assert list(eager.evaluation.losses) == ["fit", "spread"]
    assert sum(eager.evaluation.losses.values()) == pytest.approx(eager.evaluation.loss)
    for make in (tuple, Examples, as_dict, lambda parts: Triple(*parts)):
        outcome, weights = fit(device, make=make, resident=resident)
        np.testing.assert_array_equal(weights, expected)
        for got, want in zip(outcome.epochs, eager.epochs, strict=True):
            assert (got.train_loss, got.test_loss) == (want.train_loss, want.test_loss)
            assert got.metrics == want.metrics and got.test_bias == want.metrics["bias"]


def test_split_says_what_is_what(device):
    def split(batch):
        return {"a": batch["a"], "b": batch["b"]}, batch["target"]

    _, expected = fit(device)
    _, weights = fit(device, make=as_dict, split=split)
    np.testing.assert_array_equal(weights, expected)
    with pytest.raises(TypeError, match=r"split must return a tuple \(inputs, target\)"):
        fit(device, split=lambda batch: batch[0])


def test_callbacks(device):
    class Notes(train.Callback):
        def __init__(self):
            self.events = []

        def on_fit_begin(self):
            self.events.append("begin")

        def on_evaluation_end(self, step, evaluation):
            assert evaluation.examples == 90 and evaluation.bias == evaluation.metrics["bias"]
            self.events.append(("evaluation", step))

        def on_epoch_end(self, result):
            self.events.append(("epoch", result.epoch))

        def on_fit_end(self, outcome):
            self.events.append(len(outcome.epochs))

    class Steps(Notes):
        def on_step_end(self, step):
            self.events.append(step)

    notes = Notes()
    fit(device, epochs=2, evaluate_every=10, resident=True, callbacks=[notes])
    assert notes.events == [
        "begin",
        ("evaluation", 10),
        ("evaluation", 13),
        ("epoch", 1),
        ("evaluation", 20),
        ("evaluation", 26),
        ("epoch", 2),
        2,
    ]
    steps = Steps()
    fit(device, epochs=1, resident=True, callbacks=(steps,))
    assert [e for e in steps.events if isinstance(e, int)] == [*range(1, 14), 1]


def test_a_callback_stops_the_run(device):
    class Stop(train.Callback):
        def on_step_end(self, step):
            if step == 4:
                self.trainer.stop()

    stop = Stop()
    mica.manual_seed(0)
    net = nn.Linear(3, 1).to(device)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    options = {"loss": nn.MSELoss(), "progress": False}
    trainer = train.Trainer(net, optimizer, callbacks=[stop], **options)
    stop.trainer = trainer
    a, _, y = arrays(64, 1)
    loader = data.DataLoader((a, y), 8, device=device)
    outcome = trainer.fit(loader, loader)
    assert outcome.stopped_early and not outcome.epochs and not outcome.interrupted


def test_the_best_is_kept_by_any_metric(device, tmp_path):
    outcome, _ = fit(device, best_by="bias", out=tmp_path)
    best = min(range(3), key=lambda i: outcome.epochs[i].metrics["bias"])
    assert [e.best for e in outcome.epochs][best] and not any(
        e.best for e in outcome.epochs[best + 1 :]
    )
    assert "Bias" in (tmp_path / "report.html").read_text()
    with pytest.raises(mica.Error, match='best_by must be one of "loss", "bias", got "accuracy"'):
        fit(device, best_by="accuracy")


def test_saves_by_the_clock(device, tmp_path, monkeypatch):
    class Watch(train.Callback):
        def __init__(self):
            self.times = set()

        def on_step_end(self, step):
            self.times.add((tmp_path / "last.safetensors").stat().st_mtime_ns)

    watch = Watch()
    fit(device, epochs=1, out=tmp_path, save_minutes=1e-9, callbacks=[watch])
    assert len(watch.times) > 5


def test_metrics_of_their_own(device):
    rng = np.random.default_rng(0)
    scores = mica.tensor(rng.normal(size=(6, 4)).astype(np.float32), device=device)
    classes = mica.tensor(rng.integers(0, 4, 6), device=device)
    right = (scores.argmax(1) == classes).cpu().numpy()
    meter = train.Meter(train.Accuracy())
    for i in range(0, 6, 2):
        meter.add(scores[i : i + 2], classes[i : i + 2])
    assert meter.result() == right.mean()
    matrix = train.confusion_matrix(scores, classes)
    assert matrix.shape == (4, 4) and matrix.sum().item() == 6
    assert sum(matrix[c, c].item() for c in range(4)) == right.sum()
    meter.reset()
    with pytest.raises(mica.Error, match="has seen no batch"):
        meter.result()
    own = train.Meter(Bias())
    own.add({"mean": scores}, scores * 0)
    assert own.result() == pytest.approx(abs(scores.mean().item()))
    with pytest.raises(TypeError, match="expected a metric, an object with update and compute"):
        train.Meter(3)
    names = [
        m.name
        for m in (
            train.TopKAccuracy(3),
            train.MeanIoU(),
            train.Perplexity(),
            train.BitsPerCharacter(),
            train.MeanSquaredError(),
            train.RootMeanSquaredError(),
            train.MeanAbsoluteError(),
            train.R2Score(),
        )
    ]
    assert names == [
        "top3", "mean_iou", "perplexity", "bits_per_character", "mse", "rmse", "mae", "r2",
    ]  # fmt: skip


def test_errors_name_the_leaf(device):
    with pytest.raises(TypeError, match=r'the loss\["fit"\]: expected a tensor.* got float'):
        fit(device, loss=lambda out, y: {"fit": 1.0})
    with pytest.raises(mica.Error, match=r"loss\[1\] must be one number"):
        fit(device, loss=lambda out, y: (out["mean"].sum(), out["mean"]))

    class Ragged(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return {"image": [np.zeros(2 + (i == 2), np.float32)], "target": 0}

    with pytest.raises(ValueError, match=r'example\["image"\]\[0\] of example 2 is f32\[3\]'):
        next(iter(data.DataLoader(Ragged(), 4)))
