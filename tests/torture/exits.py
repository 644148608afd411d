"""Programs that end, fork, spawn or are interrupted while threads are in mica."""

import random

from child import finish, start

THREADS = """
import random, sys, threading, time
import mica
rng = random.Random({seed})
net = mica.nn.Sequential(mica.nn.Linear(16, 16), mica.nn.ReLU(), mica.nn.Linear(16, 4))
class Python(mica.nn.Module):
    def forward(self, x): return net(x).relu()
model = mica.nn.Sequential(Python(), mica.nn.ReLU())
class Set:
    def __len__(self): return 1 << 16
    def __getitem__(self, i): return [float(i)] * 4, 0
def work(kind):
    if kind == 0:
        a = mica.ones(48, 48)
        while True: a = (a @ a).tanh()
    if kind == 1:
        x = mica.ones(8, 16)
        while True:
            loss = model(x).sum(); loss.backward()
    if kind == 2:
        for batch in mica.data.DataLoader(Set(), 16, num_workers=2): pass
    if kind == 3:
        f = mica.compile(lambda x: (x * 2).relu().sum())
        while True: f(mica.ones(rng.randrange(1, 20)))
"""
ENDS = {
    "falls off": "",
    "sys.exit": "sys.exit(0)",
    "sys.exit with a walk": """
walk = iter(mica.data.DataLoader(Set(), 4, num_workers=2))
next(walk)
sys.exit(0)
""",
    "fork": """
import os, signal
child = os.fork()
if child == 0:
    signal.alarm(20)
    try: mica.ones(100, 100) @ mica.ones(100, 100)
    except mica.DeviceError: pass
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""",
    "spawn": """
import multiprocessing as m
if __name__ == "__main__":
    with m.get_context("spawn").Pool(1) as pool:
        assert pool.apply(abs, (-1,)) == 1
""",
    "64 threads": """
def some(): return [mica.ones(64, 64).sum().item() for _ in range(20)]
more = [threading.Thread(target=some) for _ in range(64)]
[t.start() for t in more]; [t.join() for t in more]
""",
}


def torture(group):
    def work(name, number):
        rng = random.Random(group.seed * 100_000 + number)
        kinds = [rng.randrange(4) for _ in range(rng.randrange(1, 5))]
        code = THREADS.format(seed=number) + (
            f"for kind in {kinds}:\n"
            f"    threading.Thread(target=work, args=(kind,), daemon=True).start()\n"
            f"time.sleep({rng.random() * 0.15})\n" + ENDS[name]
        )
        # Newer Pythons warn of every fork beside threads.
        status, _, err = finish(start(["-W", "ignore::DeprecationWarning", "-c", code]), 60)
        if status != 0 or err:
            group.find(f"{name} {kinds}, seed {group.seed}, {number}: {status}: {err[-500:]}")
        group.add(name)

    group.turns(list(ENDS), work)
