"""Kills a rank of `mica train --nproc` at random times, again and again: the others end, all start
again from the last checkpoint, and the weights are those of a run that nobody disturbed.

    python tests/torture/ranks.py --kills 50
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MICA = Path(__file__).parents[2] / "build/release/bin/mica"
MOST_SECONDS = 30  # from a kill until nobody of that attempt is left


def command(mica, out, ranks, *more):
    words = [mica, "train", "lenet", "--limit", 960, "--epochs", 3, "--deterministic", "--json"]
    words += ["--out", out, "--nproc", ranks, "--threads", 1, "--save-every", 5, *more]
    return [str(word) for word in words]


def ranks_of(out):
    """The processes that train into a directory: pid, rank and how often they were restarted."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            variables = dict(
                entry.partition(b"=")[::2] for entry in (path / "environ").read_bytes().split(b"\0")
            )
        except OSError:
            continue
        is_rank = str(out).encode() in words and b"train" in words[1:2]
        if is_rank and b"OMPI_COMM_WORLD_RANK" in variables:
            rank = int(variables[b"OMPI_COMM_WORLD_RANK"])
            found.append((int(path.name), rank, int(variables.get(b"MICA_RESTART", b"0"))))
    return found


def train_and_kill(mica, out, ranks, kills, rng):
    """Runs with restarts and kills a rank of each of the first attempts; gives how many were killed
    and the longest time that an attempt took to end."""
    process = subprocess.Popen(
        command(mica, out, ranks, "--max-restarts", kills + 2),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    slowest = 0.0
    done = 0
    for attempt in range(kills):
        pause = rng.uniform(0, 1.5)
        alive = []
        while process.poll() is None and len(alive) < ranks:
            alive = [r for r in ranks_of(out) if r[2] == attempt]
            time.sleep(0.02)
        time.sleep(pause)
        alive = [r for r in ranks_of(out) if r[2] == attempt]
        if process.poll() is not None or not alive:
            break
        os.kill(rng.choice(alive)[0], signal.SIGKILL)
        done += 1
        killed = time.monotonic()
        while any(r[2] == attempt for r in ranks_of(out)) and process.poll() is None:
            assert time.monotonic() - killed < MOST_SECONDS, "the others did not end"
            time.sleep(0.05)
        slowest = max(slowest, time.monotonic() - killed)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return done, slowest


def tensors(out):
    """The bytes of each tensor of a run's last checkpoint."""
    file = (Path(out) / "last.safetensors").read_bytes()
    begin = 8 + int.from_bytes(file[:8], "little")
    header = json.loads(file[8:begin])
    header.pop("__metadata__")
    return {
        name: file[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]]
        for name, entry in header.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mica", default=MICA)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        reference = Path(folder) / "reference"
        subprocess.run(
            command(options.mica, reference, options.ranks), check=True, capture_output=True
        )
        kills, slowest, runs = 0, 0.0, 0
        while kills < options.kills:
            out = Path(folder) / f"run-{runs}"
            done, seconds = train_and_kill(
                options.mica, out, options.ranks, min(5, options.kills - kills), rng
            )
            kills, slowest, runs = kills + done, max(slowest, seconds), runs + 1
            assert tensors(reference) == tensors(out), f"run {runs} ended with other weights"
            print(f"{kills} kills, {runs} runs, slowest end {slowest:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
