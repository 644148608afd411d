"""Runs that are stopped, fail, diverge or meet each other: nothing is lost."""

import html
import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import mica
import numpy as np
import pytest
from mica import _mica, data, io, nn, optim, train

X = np.random.default_rng(3).uniform(-1, 1, (256, 2)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)


def make(out, epochs=3, lr=0.5, **options):
    mica.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    return net, train.Trainer(
        net, optimizer, progress=False, epochs=epochs, out=str(out), **options
    )


def loaders():
    return data.DataLoader((X, Y), 4, shuffle=1), data.DataLoader((X, Y), 64)


def weights(net):
    return np.concatenate([p.detach().numpy().ravel() for p in net.parameters()])


def metrics(out):
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for line in lines:  # what a clock says
        line.pop("examples_per_s", None)
        line.pop("seconds", None)
        line.pop("test_seconds", None)
    return lines


def test_a_diverged_run_goes_on(tmp_path):
    _, trainer = make(tmp_path, epochs=2, lr=1e30)
    outcome = trainer.fit(*loaders())
    assert not np.isfinite(outcome.epochs[-1].train_loss)
    _, again = make(tmp_path, epochs=3, lr=1e30)
    again.resume(tmp_path)
    assert len(again.fit(*loaders()).epochs) == 3


def test_resumed_measurements_are_the_same(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    net, trainer = make(whole, save_every=30)
    trainer.fit(*loaders())

    # Killed between two checkpoints and between two lines of the log.
    code = f"""
    import os, sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import test_runs as t
    count = 0
    def loss(output, y):
        global count
        count += 1
        if count == 77: os.kill(os.getpid(), 9)
        return t.nn.functional.cross_entropy(output, y)
    t.make({str(stopped)!r}, save_every=30, compile=False, loss=loss)[1].fit(*t.loaders())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    other, trainer = make(stopped, save_every=30)
    trainer.resume(stopped)
    trainer.fit(*loaders())
    assert np.array_equal(weights(net), weights(other))
    assert metrics(whole) == metrics(stopped)


def test_a_finished_run_gets_its_report(tmp_path):
    _, trainer = make(tmp_path)
    trainer.fit(*loaders())
    (tmp_path / "report.html").unlink()  # killed before it was written
    _, trainer = make(tmp_path)
    trainer.resume(tmp_path)
    trainer.fit(*loaders())
    assert "<html" in (tmp_path / "report.html").read_text()


def test_a_new_run_takes_the_place_of_the_old_one(tmp_path):
    _, trainer = make(tmp_path, epochs=2)
    trainer.fit(*loaders())
    net, trainer = make(tmp_path, epochs=2, lr=0.25)
    first = weights(net).copy()
    broken = data.DataLoader(Broken(), 4)
    with pytest.raises(ValueError, match="broken"):
        trainer.fit(broken, loaders()[1])
    saved = io.load_checkpoint(tmp_path / "last.safetensors")
    assert json.loads(saved.metadata["progress"])["steps"] == 0
    assert np.array_equal(
        np.concatenate([v.numpy().ravel() for v in saved.model.values()]).sort(), first.sort()
    )
    assert (tmp_path / "metrics.jsonl").read_text() == ""
    assert not (tmp_path / "best.safetensors").exists()
    net, trainer = make(tmp_path, epochs=2, lr=0.25)
    trainer.resume(tmp_path)
    trainer.fit(*loaders())
    other, trainer = make(tmp_path / "other", epochs=2, lr=0.25)
    trainer.fit(*loaders())
    assert np.array_equal(weights(net), weights(other))


class Broken:
    def __len__(self):
        return 8

    def __getitem__(self, i):
        raise ValueError("broken")


def test_two_runs_in_one_directory(tmp_path):
    errors = []

    def meanwhile(result):
        try:
            make(tmp_path)[1].fit(*loaders())
        except mica.IoError as e:
            errors.append(str(e))

    make(tmp_path, epochs=1, on_epoch=meanwhile)[1].fit(*loaders())
    assert errors == [f"{tmp_path}: another run is writing to this directory"]
    make(tmp_path, epochs=1)[1].fit(*loaders())


def test_a_disk_that_is_full_at_the_first_save(tmp_path):
    if not os.path.exists("/dev/full") or os.geteuid() != 0:
        pytest.skip("needs a small file system of its own")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", small], check=False)
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        mica.manual_seed(1)
        net = nn.Sequential(nn.Linear(2, 4096), nn.ReLU(), nn.Linear(4096, 2))
        trainer = train.Trainer(net, optim.SGD(net.parameters(), lr=0.1), out=str(small / "run"))
        with pytest.raises(mica.IoError, match="No space left"):
            trainer.fit(*loaders())
        assert sorted(p.name for p in (small / "run").iterdir()) == [".lock"]
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_save(tmp_path, number):
    code = f"""
    import os, signal, sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    import test_runs as t
    signal.signal({int(number)}, signal.SIG_DFL)  # nohup lets SIGHUP be ignored, which is kept
    count = 0
    def loss(output, y):
        global count
        count += 1
        if count == 50: os.kill(os.getpid(), {int(number)})
        return t.nn.functional.cross_entropy(output, y)
    try:
        t.make({str(tmp_path)!r}, compile=False, loss=loss)[1].fit(*t.loaders())
    except KeyboardInterrupt:
        print("interrupted")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], timeout=60, capture_output=True, text=True
    )
    assert done.stdout == "interrupted\n", done.stderr
    saved = io.load_checkpoint(tmp_path / "last.safetensors")
    assert json.loads(saved.metadata["progress"])["steps"] == 50


def test_the_last_of_many_epochs_takes_as_long_as_the_first(tmp_path):
    times = []
    x, y = X[:8], Y[:8]
    pair = data.DataLoader((x, y), 8, shuffle=1), data.DataLoader((x, y), 8)
    _, trainer = make(tmp_path, epochs=400, on_epoch=lambda r: times.append(time.process_time()))
    trainer.fit(*pair)
    steps = np.diff(times)
    assert np.median(steps[-100:]) < 3 * np.median(steps[:100]) + 1e-3


def test_words_of_a_checkpoint_that_does_not_fit(tmp_path):
    make(tmp_path, epochs=1)[1].fit(*loaders())
    net = nn.Sequential(nn.Linear(2, 3))
    trainer = train.Trainer(net, optim.SGD(net.parameters(), lr=0.1))
    with pytest.raises(mica.IoError, match=r"last\.safetensors: load_state_dict"):
        trainer.resume(tmp_path)


def write_digits(folder, count=64):
    """A few images with MNIST's names."""
    folder.mkdir()
    pixels = np.random.default_rng(1).integers(0, 255, (count, 28, 28), dtype=np.uint8)
    for part in ("train", "t10k"):
        header = b"\0\0\x08\x03" + struct.pack(">3I", count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(header + pixels.tobytes())
        labels = bytes(i % 10 for i in range(count))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(
            b"\0\0\x08\x01" + struct.pack(">I", count) + labels
        )


def test_the_command_of_a_report_and_the_threads_of_a_checkpoint(tmp_path):
    tool = Path(_mica.__file__).parents[2] / "bin" / "mica"
    if not tool.exists():
        pytest.skip("the mica command was not built")
    hostile = tmp_path / "d'; touch X; '"
    write_digits(hostile)
    out = tmp_path / "run"

    def mica_train(*arguments):
        command = [tool, "train", "lenet", "--device", "cpu", "--out", out, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    done = mica_train("--data", hostile, "--epochs", "1", "--threads", "1")
    assert done.returncode == 0, done.stderr
    report = html.unescape(re.sub(r"</?span>", "", (out / "report.html").read_text()))
    words = shlex.split(re.findall(r"<code>(mica train [^<]*)</code>", report)[0])
    assert words[words.index("--data") + 1] == str(hostile)

    path = str(out / "last.safetensors")
    saved = io.load_checkpoint(path)
    config = json.loads(saved.metadata["config"])
    assert config["threads"] == 1
    saved.metadata |= {"config": json.dumps(config | {"threads": 2**31 - 1})}
    io.save_checkpoint(path, saved)
    done = subprocess.run(
        [tool, "train", "--resume", out, "--epochs", "2"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
