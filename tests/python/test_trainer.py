"""The training loop of C++ with models, losses and callbacks of Python; files; threads; Ctrl-C."""

import gc
import json
import subprocess
import sys
import textwrap
import threading
import weakref

import mica
import mica.nn.functional as F
import numpy as np
import pytest
from mica import data, nn, optim, train


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 16)
        self.fc2 = nn.Linear(16, 2)

    def forward(self, x):
        return self.fc2(self.fc1(x).relu())


def quadrants(n=256):
    x = np.random.default_rng(3).uniform(-1, 1, (n, 2)).astype(np.float32)
    return x, (x[:, 0] * x[:, 1] > 0).astype(np.int64)


@pytest.fixture
def loaders(device):
    x, y = quadrants()
    return (
        data.DataLoader((x, y), 32, shuffle=1, device=device),
        data.DataLoader((x, y), 64, device=device),
    )


def make(device, seed=1, **options):
    mica.manual_seed(seed)
    net = Net().to(device)
    optimizer = optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    return net, train.Trainer(net, optimizer, progress=False, **options)


def weights(net):
    return np.concatenate([p.detach().cpu().numpy().ravel() for p in net.parameters()])


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_fit(loaders, device, compiled):
    seen = []
    net, trainer = make(device, epochs=8, compile=compiled, on_epoch=seen.append)
    outcome = trainer.fit(*loaders)
    assert outcome.epochs[-1].test_accuracy > 0.9
    assert outcome.epochs[-1].train_loss < outcome.epochs[0].train_loss
    assert [r.epoch for r in seen] == list(range(1, 9)) and seen[-1].steps == 64
    assert not outcome.interrupted and not outcome.stopped_early and outcome.seconds > 0
    assert outcome.steps[0].step == 50 and bool(trainer.kernels()) == compiled
    evaluation = train.evaluate(net, loaders[1])
    assert evaluation.accuracy == outcome.epochs[-1].test_accuracy
    assert evaluation.confusion.sum().item() == 256 == evaluation.examples
    assert train.accuracy(net, *quadrants()) == train.accuracy(net, quadrants())
    assert "epoch=8" in repr(seen[-1])


def test_resident_data_and_a_loss_of_python(device):
    x, y = quadrants()
    loader = data.DataLoader((x, y), 32, shuffle=1, device=device, resident=True)

    def smooth(output, target):
        return F.cross_entropy(output, target, label_smoothing=0.01)

    _, trainer = make(device, epochs=8, loss=smooth)
    assert trainer.fit(loader, loader).epochs[-1].test_accuracy > 0.9
    _, trainer = make(device, epochs=1, loss=nn.CrossEntropyLoss(label_smoothing=0.01))
    assert trainer.fit(loader, loader).epochs[-1].test_loss < 1


@pytest.mark.parametrize("resident", [False, True])
def test_drop_last(device, resident, capfd):
    """Steps, progress and images of an epoch are those of its whole batches."""
    x, y = quadrants(100)
    loader = data.DataLoader((x, y), 32, drop_last=True, device=device, resident=resident)
    whole = data.DataLoader((x[:96], y[:96]), 32, device=device)
    results = []
    for source in (loader, whole):
        mica.manual_seed(1)
        net = Net().to(device)
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        outcome = train.Trainer(net, optimizer, epochs=2, progress=True).fit(source, whole)
        assert [r.steps for r in outcome.epochs] == [3, 6]
        results.append((weights(net), [r.train_loss for r in outcome.epochs]))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    assert results[0][1] == pytest.approx(results[1][1])


def test_python_dataset_trains_as_arrays_do(device):
    x, y = quadrants(64)

    class Pairs:
        def __len__(self):
            return len(x)

        def __getitem__(self, i):
            return x[i], y[i]

    results = []
    for source in (Pairs(), (x, y)):
        loader = data.DataLoader(source, 16, shuffle=2, num_workers=2, device=device)
        net, trainer = make(device, epochs=2)
        trainer.fit(loader, loader)
        results.append(weights(net))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_stops(loaders, device):
    net, trainer = make(device, epochs=50, until_accuracy=0.85)
    outcome = trainer.fit(*loaders)
    assert outcome.reached and len(outcome.epochs) < 50
    mica.manual_seed(1)
    net = Net().to(device)
    frozen = optim.SGD(net.parameters(), lr=0)
    outcome = train.Trainer(net, frozen, epochs=50, patience=2, progress=False).fit(*loaders)
    assert outcome.stopped_early and len(outcome.epochs) == 3


def test_resume(loaders, device, tmp_path):
    mica.set_deterministic(True)
    whole, trainer = make(device, epochs=4)
    trainer.fit(*loaders)
    _, trainer = make(device, epochs=2, out=tmp_path / "run")
    trainer.fit(*loaders)
    resumed, trainer = make(device, seed=9, epochs=4)
    trainer.resume(tmp_path / "run")
    outcome = trainer.fit(*loaders)
    assert [r.epoch for r in outcome.epochs] == [1, 2, 3, 4]
    np.testing.assert_array_equal(weights(resumed), weights(whole))
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"last.safetensors", "best.safetensors", "metrics.jsonl", "report.html"} <= names
    saved = mica.io.load_checkpoint(tmp_path / "run" / "last.safetensors")
    assert set(saved.model) == set(resumed.state_dict()) and "progress" in saved.metadata
    with pytest.raises(OSError, match="nothing"):
        trainer.resume(tmp_path / "nothing")


def test_errors_come_through(loaders, device):
    class Broken(Net):
        def forward(self, x):
            raise LookupError("in forward")

    net = Broken().to(device)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for compiled in (False, True):
        trainer = train.Trainer(net, optimizer, compile=compiled, progress=False)
        with pytest.raises(LookupError, match="in forward"):
            trainer.fit(*loaders)

    def fails(result):
        raise ArithmeticError("in a callback")

    net, trainer = make(device, on_epoch=fails)
    with pytest.raises(ArithmeticError, match="in a callback"):
        trainer.fit(*loaders)
    net, trainer = make(device, loss=lambda out, y: 3)
    with pytest.raises(TypeError, match=r"the loss: expected a tensor.*got int"):
        trainer.fit(*loaders)
    with pytest.raises(TypeError, match=r"expected an nn\.Module"):
        train.Trainer(3, optimizer)


def test_trainers_are_collected(loaders, device):
    def run():
        net, trainer = make(device, epochs=1, on_epoch=lambda r: net.trainer)
        net.trainer = trainer
        trainer.fit(*loaders)
        return net

    gone = weakref.ref(run())
    gc.collect()
    assert gone() is None


def test_two_threads_train_two_models(device):
    x, y = quadrants()

    def run(seed, compiled):
        loader = data.DataLoader((x, y), 32, shuffle=seed, device=device)
        mica.manual_seed(seed)
        net = Net().to(device)
        optimizer = optim.SGD(net.parameters(), lr=0.2)
        trainer = train.Trainer(net, optimizer, epochs=4, compile=compiled, progress=False)
        trainer.fit(loader, loader)
        return net, trainer

    # Weights are drawn from one generator, so the models are made one after the other.
    lock, results, errors = threading.Lock(), {}, []

    def work(seed, compiled):
        try:
            with lock:
                mica.manual_seed(seed)
                net = Net().to(device)
            loader = data.DataLoader((x, y), 32, shuffle=seed, device=device)
            optimizer = optim.SGD(net.parameters(), lr=0.2)
            trainer = train.Trainer(net, optimizer, epochs=4, compile=compiled, progress=False)
            trainer.fit(loader, loader)
            results[seed] = weights(net)
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i, i % 2 == 0)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    for i in range(3):
        net, _ = run(i, i % 2 == 0)
        np.testing.assert_allclose(weights(net), results[i], rtol=1e-4, atol=1e-5)


SCRIPT = """
    import os, signal, sys, threading, time
    import numpy as np
    import mica
    from mica import data, nn, optim, train
    x, y = np.zeros((64, 2), np.float32), np.zeros(64, np.int64)
    loader = data.DataLoader((x, y), 8)
    net = nn.Sequential(nn.Linear(2, 2))
    trainer = train.Trainer(net, optim.SGD(net.parameters(), lr=0.1), epochs=10**6,
                            progress=False, out=sys.argv[1])
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
"""


def run_script(script, *args):
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT) + textwrap.dedent(script), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_keyboard_interrupt_in_fit(tmp_path):
    result = run_script(
        """
        try:
            trainer.fit(loader, loader)
        except KeyboardInterrupt:
            assert trainer.outcome.interrupted and os.path.exists(sys.argv[1] + "/last.safetensors")
            print("interrupted")
        signal.raise_signal(signal.SIGINT)
        """,
        str(tmp_path),
    )
    assert result.stdout == "interrupted\n"
    assert result.stderr.rstrip().endswith("KeyboardInterrupt"), result.stderr


def test_keyboard_interrupt_while_another_thread_fits(tmp_path):
    result = run_script(
        """
        thread = threading.Thread(target=trainer.fit, args=(loader, loader))
        thread.start()
        try:
            while thread.is_alive():
                time.sleep(0.01)
            time.sleep(1)
        except KeyboardInterrupt:
            thread.join()
            print("interrupted", trainer.outcome.interrupted)
        """,
        str(tmp_path),
    )
    assert result.stdout == "interrupted True\n", result.stderr


def test_safetensors_and_checkpoints(tmp_path, device):
    net = Net().to(device)
    optimizer = optim.Adam(net.parameters())
    F.cross_entropy(
        net(mica.rand(4, 2, device=device)), mica.tensor([0, 1, 0, 1], device=device)
    ).backward()
    optimizer.step()
    mica.io.save_safetensors(tmp_path / "a.safetensors", net.state_dict(), {"note": "first"})
    loaded = mica.io.load_safetensors(tmp_path / "a.safetensors")
    assert loaded.metadata == {"note": "first"}
    other = Net()
    other.load_state_dict(loaded.tensors)
    np.testing.assert_array_equal(weights(other), weights(net))
    checkpoint = mica.io.Checkpoint(
        net.state_dict(), optimizer.state_dict(), {"random": mica.io.random_state(device)}
    )
    mica.io.save_checkpoint(tmp_path / "c.safetensors", checkpoint)
    before = mica.rand(3, device=device).cpu().numpy()
    back = mica.io.load_checkpoint(tmp_path / "c.safetensors")
    mica.io.set_random_state(back.metadata["random"], device)
    np.testing.assert_array_equal(mica.rand(3, device=device).cpu().numpy(), before)
    optim.Adam(net.parameters()).load_state_dict(back.optimizer)
    with pytest.raises(OSError, match="empty"):
        (tmp_path / "empty").write_bytes(b"")
        mica.io.load_safetensors(tmp_path / "empty")


def test_images_and_logs(tmp_path):
    image = mica.tensor(np.arange(48, dtype=np.uint8).reshape(3, 4, 4))
    png = mica.io.encode_png(image)
    np.testing.assert_array_equal(mica.io.decode_image(png).numpy(), image.numpy())
    mica.io.write_png(tmp_path / "a.png", image)
    assert mica.io.read_image(tmp_path / "a.png", channels=1).shape == (1, 4, 4)
    log = mica.io.MetricsLog(tmp_path / "m.jsonl")
    log.write(3, loss=0.5, lr=float("nan"))
    assert json.loads((tmp_path / "m.jsonl").read_text()) == {"step": 3, "loss": 0.5, "lr": None}
    writer = mica.io.EventWriter(tmp_path / "events")
    writer.scalar("loss", 0.5, 3)
    assert (tmp_path / "events").iterdir() and writer.path.startswith(str(tmp_path))


def test_models_and_memory(device):
    for name in ("mlp", "simple_cnn", "lenet", "lenet6", "mnist_net"):
        net = mica.models.make(name).to(device)
        assert net(mica.rand(2, 1, 28, 28, device=device)).shape == (2, 10)
    assert mica.models.mlp(4, [3], 2, activation="gelu")(mica.rand(1, 4)).shape == (1, 2)
    assert mica.models.cnn(1, 8, [2], 5)(mica.rand(1, 1, 8, 8)).shape == (1, 5)
    stats = mica.memory_stats(device)
    assert 0 < stats["allocated"] <= stats["peak"] and 0 <= stats["fragmentation"] <= 1
    mica.reset_peak(device)
    mica.empty_cache(device)
    assert mica.memory_stats(device)["peak"] <= stats["peak"]


def test_a_module_is_compiled(device):
    net = Net().to(device).requires_grad_(False)
    fast = mica.compile(net)
    x = mica.rand(3, 2, device=device)
    for _ in range(2):
        np.testing.assert_allclose(fast(x).cpu().numpy(), net(x).cpu().numpy(), rtol=1e-5)
    assert fast.captures == 1 and fast.fc1 is net.fc1 and len(fast.parameters()) == 4


def test_streams_and_settings(device):
    stream, first, second = mica.cuda.Stream(device), mica.cuda.Event(), mica.cuda.Event()
    first.record(stream)
    with mica.cuda.stream(stream):
        x = mica.ones(1000, device=device) * 2
    second.record(stream)
    second.synchronize()
    assert stream.query() and first.elapsed_time(second) >= 0
    assert stream.device == x.device
    assert mica.cuda.current_stream(device) == mica.cuda.default_stream(device)
    assert x.sum().item() == 2000
    name = mica.passes()[0]
    mica.set_pass(name, False)
    assert not mica.pass_is_on(name)
    mica.set_pass(name, True)
    mica.force_kernel("matmul", "reference")
    assert mica.forced_kernel("matmul") == "reference"
    mica.force_kernel("matmul", "")
