"""Files that mica.save and torch.save wrote, mutated: mica.load gives a value, an IoError or an
Unsupported that names the file, within 1 GB of address space and 256 MB of memory.

    python tests/torture/saved.py COUNT [SEED]
"""

import os
import random
import resource
import sys
import tempfile
import time

from child import HERE, finish, limit_memory, start
from files import mutated

GOLDEN = os.path.join(HERE, "../golden")
COUNT = 5000
_MOST_MEMORY = 256  # MiB beyond what importing takes
_MOST_SECONDS = 5


def seeds(folder):
    """Files of both kinds, and the parts of them that mutations should hit more often."""
    import mica

    path = os.path.join(folder, "seed")
    trees = [
        {"weights": {"a": mica.ones(3, 4), "b": [mica.zeros(2), None, 1.5]}, "epoch": 3},
        [("x", True), {1: mica.arange(5), "nested": {"deep": [[], {}, ()]}}],
    ]
    begun = []
    for tree in trees:
        mica.save(tree, path)
        with open(path, "rb") as file:
            begun.append(file.read())
    os.remove(path)
    for name in ("torch_archive.pt", "torch_legacy.pt", "torch_module.pt"):
        with open(os.path.join(GOLDEN, name), "rb") as file:
            begun.append(file.read())
    return begun


def spliced(a, b, rng):
    """The beginning of one file with the end of another."""
    return a[: rng.randrange(len(a))] + b[rng.randrange(len(b)) :]


def attack(count, seed):
    import mica

    rng = random.Random(f"saved {seed}")
    mica.ones(1000).sum().item()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    limit_memory(1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        begun = seeds(folder)
        path = os.path.join(folder, "file")
        for number in range(count):
            data = rng.choice(begun)
            if rng.random() < 0.05:
                data = spliced(data, rng.choice(begun), rng)
            data = mutated(data, rng)
            with open(path, "wb") as file:
                file.write(data)
            begin = time.monotonic()
            try:
                mica.load(path)
            except (mica.IoError, mica.Unsupported) as e:
                if path not in str(e):
                    print("found", seed, number, "no file name:", e)
            except Exception as e:
                print("found", seed, number, type(e).__name__, e)
            if time.monotonic() - begin > _MOST_SECONDS:
                print("found", seed, number, "took", time.monotonic() - begin, "s")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    if grown > _MOST_MEMORY:
        print("found", seed, "took", grown, "MiB")
    print(count)


def torture(_seconds, seed):
    """As many as COUNT, whatever the time."""
    status, out, err = finish(start(["saved.py", COUNT, seed]), timeout=600)
    found = [line for line in out.splitlines() if line.startswith("found ")]
    if status != 0:
        found.append(f"saved.py {COUNT} {seed}: {status}: {(out + err)[-600:]}")
    return f"{COUNT} mutated files of mica and torch", found


if __name__ == "__main__":
    attack(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
