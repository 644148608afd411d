"""Kills a rank of `mica train --nproc` at random times, again and again: the others end, all start
again from the last checkpoint, and the weights are those of a run that nobody disturbed. And kills
ranks while they write checkpoints together: what is there is the old one or the new one, whole.

    python tests/torture/ranks.py --kills 50 --saves 50
    python tests/torture/ranks.py --seconds 600         both for half of that time
"""

import argparse
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(__file__).parents[2] / "build/release/bin"
MOST_SECONDS = 30  # from a kill until nobody of that attempt is left


def write_images(folder):
    """Files as those of Fashion-MNIST, with noise."""
    folder.mkdir()
    rng = random.Random(0)
    for name, n in (("train", 640), ("t10k", 100)):
        pixels = struct.pack(">4i", 0x803, n, 28, 28) + rng.randbytes(n * 28 * 28)
        labels = struct.pack(">2i", 0x801, n) + bytes(rng.randrange(10) for _ in range(n))
        (folder / f"{name}-images-idx3-ubyte").write_bytes(pixels)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(labels)


def command(mica, out, ranks, *more):
    words = [mica, "train", "lenet", "--epochs", 3, "--deterministic", "--json", "--device", "cpu"]
    words += ["--data", out.parent / "images", "--out", out, "--nproc", ranks, "--threads", 1]
    return [str(word) for word in [*words, "--save-every", 5, *more]]


def ranks_of(out):
    """The processes that write to a directory: pid, rank and how often they were restarted."""
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
        is_rank = str(out).encode() in words and b"launch" not in words[1:2]
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


def torture_training(options, rng, folder, goes_on):
    mica = options.bin / "mica"
    write_images(folder / "images")
    reference = folder / "reference"
    subprocess.run(command(mica, reference, options.ranks), check=True, capture_output=True)
    kills, slowest, runs = 0, 0.0, 0
    while goes_on(kills):
        out = folder / f"run-{runs}"
        at_once = min(5, options.kills - kills)
        done, seconds = train_and_kill(mica, out, options.ranks, at_once, rng)
        kills, slowest, runs = kills + done, max(slowest, seconds), runs + 1
        assert tensors(reference) == tensors(out), f"run {runs} ended with other weights"
        print(f"{kills} kills, {runs} runs, slowest end {slowest:.1f} s", flush=True)


def torture_saves(options, rng, folder, goes_on):
    ranks, place = options.bin / "mica_test_ranks", folder / "checkpoint"
    save = [ranks, "checkpoints", "save", place, 2, 1_000_000]
    load = [ranks, "checkpoints", "load", place, 2]
    steps, kills = set(), 0
    while goes_on(kills):
        process = subprocess.Popen(
            ["mpirun", "--oversubscribe", "-n", str(options.ranks), *map(str, save)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # The first is to be there before anything is killed.
        begin = time.monotonic()
        while not place.exists() or time.monotonic() - begin < 0.5:
            assert process.poll() is None, "the ranks ended by themselves"
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        # One of them, whose end the others notice, or all at once.
        alive = [pid for pid, _, _ in ranks_of(place)]
        for pid in rng.choice([alive, [rng.choice(alive)]]):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        kills += 1
        done = subprocess.run(list(map(str, load)), capture_output=True, text=True)
        assert done.returncode == 0, f"after {kills} kills: {done.stderr}"
        steps.add(done.stdout.split("of step ")[1].split()[0])
    print(f"{kills} kills while checkpoints are saved, found those of steps {sorted(steps)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--saves", type=int, default=50, help="kills while checkpoints are saved")
    parser.add_argument("--seconds", type=float, help="the time for both, whatever is done by then")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bin", type=Path, default=BIN)
    options = parser.parse_args()
    if not shutil.which("mpirun"):
        print("ranks: skipped, there is no mpirun")
        return 0
    rng = random.Random(options.seed)
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        os.environ.setdefault(name, "1")
    os.environ["OMP_NUM_THREADS"] = "1"
    if options.seconds:
        options.kills = options.saves = sys.maxsize
    for torture, most in ((torture_training, options.kills), (torture_saves, options.saves)):
        end = time.monotonic() + options.seconds / 2 if options.seconds else float("inf")
        if most > 0:
            with tempfile.TemporaryDirectory() as folder:
                torture(
                    options,
                    rng,
                    Path(folder),
                    lambda done, most=most, end=end: done < most and time.monotonic() < end,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
