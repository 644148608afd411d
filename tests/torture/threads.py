"""64 threads that train, compile, load and save at once: each ends with the bits it has alone."""

import hashlib
import os
import sys
import tempfile
import threading
import time

from child import in_child

THREADS = 64


def digest(*tensors):
    made = hashlib.sha256()
    for t in tensors:
        made.update(t.detach().numpy().tobytes())
    return made.hexdigest()


def network(mica, number):
    from mica import nn

    rows = mica.arange(128.0).reshape(8, 16)
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    for i, p in enumerate(net.parameters()):
        values = mica.arange(p.numel(), dtype=mica.float32).reshape(p.shape)
        with mica.no_grad():
            p.copy_((values * (i + 1 + number % 7)).sin() / 4)
    return net, rows.cos()


def train(mica, number, compiled):
    net, x = network(mica, number)
    optimizer = mica.optim.Adam(net.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step = mica.compile(step) if compiled else step
    losses = [step(x) for _ in range(6)]
    return digest(*losses, *net.parameters())


def eager(mica, number):
    return train(mica, number, compiled=False)


def compiled(mica, number):
    return train(mica, number, compiled=True)


def shapes(mica, number):
    f = mica.compile(lambda x: ((x * 2).relu().sum(), x.flip(0)))
    made = [f(mica.arange(float(n)) - number) for n in (3, 50, 4, 3, 50)]
    return digest(*(t for pair in made for t in pair))


def data(mica, number):
    x = mica.arange(60.0).reshape(20, 3) + number
    loader = mica.data.DataLoader((x, mica.arange(20)), 4, shuffle=number, num_workers=2)
    return digest(*(t for batch in loader for t in batch))


def files(mica, number):
    net, x = network(mica, number)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net")
        mica.save(net.state_dict(), path)
        net.load_state_dict(mica.load(path))
    return digest(net(x))


KINDS = [eager, compiled, shapes, data, files]


def attack(seed, seconds):
    import mica

    end = time.monotonic() + seconds
    # The default way of adding up may depend on how many threads a kernel gets.
    mica.set_num_threads(2)
    mica.set_deterministic(True)
    alone = [KINDS[(seed + n) % len(KINDS)](mica, n) for n in range(THREADS)]
    barrier = threading.Barrier(THREADS)
    rounds = [0] * THREADS

    def work(n):
        barrier.wait()
        while not rounds[n] or time.monotonic() < end:
            try:
                found = KINDS[(seed + n) % len(KINDS)](mica, n)
            except Exception as e:
                print("found", seed, n, type(e).__name__, e, flush=True)
                return
            if found != alone[n]:
                print("found", seed, n, KINDS[(seed + n) % len(KINDS)].__name__, "other bits")
            rounds[n] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(sum(rounds))


def torture(group):
    group.turns(
        ["runs of 64 threads"],
        lambda kind, number: in_child(group, kind, "threads.py", group.seed * 100_000 + number),
    )


if __name__ == "__main__":
    attack(int(sys.argv[1]), float(sys.argv[2]))
