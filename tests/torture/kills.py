"""Runs that are killed at any moment and gone on with end with the bits of one left alone."""

import functools
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time

from child import finish, start

CONFIGURATIONS = [
    {"compile": True, "optimizer": "SGD", "workers": 0, "save_every": 0},
    {"compile": False, "optimizer": "Adam", "workers": 0, "save_every": 7},
    {"compile": True, "optimizer": "AdamW", "workers": 2, "save_every": 3},
    {"compile": False, "optimizer": "RMSprop", "workers": 1, "save_every": 1},
    {
        "compile": True,
        "optimizer": "SGD",
        "workers": 0,
        "save_every": 5,
        "dropout": 0.3,
        "resident": True,
    },
]


def train(out, number):
    """Begins the run in `out`, or goes on with it; prints what its end is known by."""
    import mica
    import numpy as np
    from mica import data, nn, optim

    c = CONFIGURATIONS[number]
    mica.set_num_threads(1)
    mica.manual_seed(number)
    rng = np.random.default_rng(number)
    x = rng.uniform(-1, 1, (128, 4)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    net = nn.Sequential(
        nn.Linear(4, 32), nn.ReLU(), nn.Dropout(c.get("dropout", 0.0)), nn.Linear(32, 2)
    )
    optimizer = getattr(optim, c["optimizer"])(net.parameters(), lr=0.05)
    trainer = mica.train.Trainer(
        net,
        optimizer,
        epochs=6,
        out=out,
        progress=False,
        compile=c["compile"],
        save_every=c["save_every"],
    )
    loader = data.DataLoader(
        (x, y), 8, shuffle=number, num_workers=c["workers"], resident=c.get("resident", False)
    )
    print("begin", flush=True)
    if os.path.exists(os.path.join(out, "last.safetensors")):
        trainer.resume(out)
    trainer.fit(loader, data.DataLoader((x, y), 64))
    digest = hashlib.sha256()
    for name, value in sorted(net.state_dict().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    with open(os.path.join(out, "metrics.jsonl")) as file:
        for line in file:
            values = json.loads(line)
            for name in ("seconds", "test_seconds", "examples_per_s"):
                values.pop(name, None)
            digest.update(json.dumps(values).encode())
    assert os.path.exists(os.path.join(out, "report.html"))
    print(digest.hexdigest())


def end_alone(group, number):
    """What the end of a run is known by that nobody disturbs, and how long it trains."""
    folder = tempfile.mkdtemp()
    try:
        process = start(["kills.py", folder + "/run", number])
        process.stdout.readline()
        begin = time.monotonic()
        status, out, err = finish(process, 60)
        if status == 0:
            return out.split()[-1], time.monotonic() - begin
        group.find(f"configuration {number}: {status}: {err[-500:]}")
        return None, 0.0
    finally:
        shutil.rmtree(folder)


def kill_and_go_on(group, kind, number, seed, end, duration):
    rng, patience, folder = random.Random(seed), 0.9, tempfile.mkdtemp()
    try:
        while True:
            process = start(["kills.py", folder + "/run", number])
            process.stdout.readline()
            time.sleep(rng.random() * duration * patience)
            if process.poll() is None and group.wants(kind) and patience > 0.01:
                process.kill()
                finish(process, 10)
                group.add(kind)
                patience *= 0.97
                continue
            status, out, err = finish(process, 60)
            if status != 0 or out.split()[-1] != end:
                group.find(f"configuration {number}, seed {seed}: {status} {out} {err[-500:]}")
            return
    finally:
        shutil.rmtree(folder)


def torture(group):
    names = [f"of configuration {n}" for n in range(len(CONFIGURATIONS))]
    alone = functools.cache(lambda n: end_alone(group, n))

    def work(kind, number):
        n = names.index(kind)
        end, duration = alone(n)
        if end:
            kill_and_go_on(group, kind, n, group.seed * 100_000 + number, end, duration)

    group.turns(names, work)


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2]))
