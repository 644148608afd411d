"""Random programs through the public API, run eagerly and compiled, and what NumPy has too beside
NumPy: everything that can be seen must be the same, or the compiled call says why it refuses.

    python tests/python/fuzz_compile.py --programs 10000 --seed 1
    python tests/python/fuzz_compile.py --device cuda --programs 5000 --jobs 16 --out DIR

Half of the programs are chains of calls over all functions (fuzz_ops.py), half are functions of a
few statements whose surroundings change between calls (fuzz_programs.py). On CUDA each runs under
settings of its own: TF32, timing of kernels and deterministic mode, on or off. A program that ends
the process, or does not end within a minute, counts as one that differs. What differs is shrunk and
written to a file of its own below DIR; the last line counts, also where the time is over or the
process is told to end (SIGTERM).
"""

import argparse
import collections
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import fuzz_ops
import fuzz_programs
import mica
import numpy as np

KINDS = (fuzz_programs, fuzz_ops)
# How far results may lie apart, as a part of the largest element, where sums may go another way.
NEAR = {"float64": 1e-8, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1.5e-1}
TF32 = 2e-2
SHRINKING = 30  # seconds for one program
HANGING = 60 + SHRINKING


class Settings(NamedTuple):
    device: str = "cpu"
    deterministic: bool = True
    tf32: bool = False
    timing: bool = False

    @property
    def exact(self):
        return self.deterministic and self.device == "cpu"

    def apply(self):
        mica.set_deterministic(self.deterministic)
        mica.set_allow_tf32(self.tf32)
        mica.set_autotune(self.timing)

    def near(self, a, b, dtype, exact=False):
        if a.shape != b.shape:
            return False
        with np.errstate(all="ignore"):
            differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
            if exact or not differ.any():
                return not differ.any()
            tolerance = NEAR.get(dtype.split(".")[-1], 0)
            if self.tf32 and tolerance:
                tolerance = max(tolerance, TF32)
            scale = np.abs(a[np.isfinite(a)]).max(initial=1.0)
            return bool((np.abs(a - b) <= tolerance * scale)[differ].all())


def settings_of(rng, device):
    if device == "cpu":
        return Settings()
    return Settings(device, *(rng.random() < 0.5 for _ in range(3)))


def difference(kind, program, settings):
    settings.apply()
    return kind.difference(program, settings.device, settings.near)


def shrink(kind, program, settings):
    """The same program with as little as still shows a difference."""

    def fails(p):
        try:
            text, _ = difference(kind, p, settings)
            return bool(text) and "NameError" not in text
        except Exception:
            return False

    end = time.monotonic() + SHRINKING
    again = True
    while again and time.monotonic() < end:
        smaller = next((p for p in program.parts() if fails(p)), None)
        again = smaller is not None
        program = smaller or program
    return program


def program_of(i, seed, device):
    rng = random.Random(seed * 1_000_003 + i)
    settings = settings_of(rng, device)
    kind = KINDS[i % 2]
    return kind, kind.make(rng, settings), settings


def report(kind, program, settings):
    program = shrink(kind, program, settings)
    text, _ = difference(kind, program, settings)
    return f"{text}\n{settings}\n{program}\n"


def fuzz(programs, seed, device="cpu", first=0, every=1, end=None):
    """Yields the number of the program, what is wrong with it, and why it was refused."""
    try:
        for i in range(first, programs, every):
            if end is not None and time.monotonic() > end:
                return
            kind, program, settings = program_of(i, seed, device)
            yield i, None, None  # for whoever looks where the process ended
            text, refusal = difference(kind, program, settings)
            yield i, report(kind, program, settings) if text else "", refusal
    finally:
        Settings().apply()
        mica.set_deterministic(False)


class Tally:
    """What one process did, kept in a file for whoever waits for it."""

    def __init__(self, path=""):
        self.path, self.at = path, -1
        self.ran = self.wrong = 0
        self.refused = {}

    def begin(self, i):
        self.at = i
        if self.path:
            numbers = (self.at, self.ran, self.wrong, sum(self.refused.values()))
            replaced = Path(self.path + ".new")
            replaced.write_text(" ".join(map(str, numbers)))
            replaced.replace(self.path)

    def add(self, text, refusal):
        self.ran += 1
        self.wrong += bool(text)
        if refusal:
            reason = re.sub(r"\d+", "N", refusal)[:120]
            self.refused[reason] = self.refused.get(reason, 0) + 1


def keep(folder, seed, i, text):
    """Says what differs, and writes it down."""
    text = f"program {i} of seed {seed}: {text}"
    print(text, flush=True)
    if folder:
        (Path(folder) / f"program-{seed}-{i}.txt").write_text(text)


def run_here(options):
    """One process's part of the programs. It says which it is at, so that a crash can be told."""
    end = time.monotonic() + options.seconds if options.seconds else None
    tally = Tally(options.at)
    for i, text, refusal in fuzz(
        options.programs, options.seed, options.device, options.first, options.jobs, end
    ):
        if text is None:
            tally.begin(i)
            continue
        tally.add(text, refusal)
        if text:
            keep(options.out, options.seed, i, text)
    tally.begin(-1)
    Path(options.at + ".refused").write_text(json.dumps(tally.refused))
    return 0


class Worker:
    """A process that runs every n-th program, and another one where it died or hangs."""

    def __init__(self, options, number, folder):
        self.options, self.number = options, number
        self.at = folder / f"at-{number}"
        self.end = time.monotonic() + options.seconds if options.seconds else None
        self.counts = [0, 0, 0]  # ran, differ, refused: of the processes before
        self.start(number)

    def start(self, first):
        self.at.unlink(missing_ok=True)
        command = [sys.executable, __file__, "--child", "--first", str(first), "--at", str(self.at)]
        for name in ("programs", "seed", "device", "jobs", "out"):
            command += [f"--{name}", str(getattr(self.options, name))]
        left = self.end - time.monotonic() if self.end else 0
        command += ["--seconds", str(max(1, left) if self.end else 0)]
        self.process = subprocess.Popen(command)
        self.seen, self.since = None, time.monotonic()

    def where(self):
        """The program it is at, none before the first and -1 after the last; and its counts."""
        try:
            at, *counts = map(int, self.at.read_text().split())
        except OSError:
            return None, [0, 0, 0]
        return at, counts

    def total(self):
        return [a + b for a, b in zip(self.counts, self.where()[1], strict=True)]

    def refusals(self):
        with contextlib.suppress(OSError):
            return collections.Counter(json.loads(Path(f"{self.at}.refused").read_text()))
        return collections.Counter()

    def goes_on(self):
        """Whether there is more to wait for."""
        code = self.process.poll()
        at, _ = self.where()
        if at != self.seen:
            self.seen, self.since = at, time.monotonic()
        if code is None and time.monotonic() - self.since < HANGING:
            return True
        if code == 0 and at == -1:
            return False
        self.process.kill()
        self.process.wait()
        if at is None:
            raise SystemExit(f"the processes do not start: {code}")
        what = "it does not end" if code is None else f"it ended the process: {code}"
        _, program, settings = program_of(at, self.options.seed, self.options.device)
        keep(self.options.out, self.options.seed, at, f"{what}\n{settings}\n{program}\n")
        ran, wrong, refused = self.total()
        self.counts = [ran + 1, wrong + 1, refused]
        self.start(at + self.options.jobs)
        return True


def run_workers(options):
    start = time.monotonic()
    if options.out:
        Path(options.out).mkdir(parents=True, exist_ok=True)
    if options.jobs > 1:  # as many processes as cores: each with one thread
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to"))
    with tempfile.TemporaryDirectory() as folder:
        workers = [Worker(options, n, Path(folder)) for n in range(options.jobs)]
        try:
            while any([w.goes_on() for w in workers]):
                time.sleep(0.2)
        except (KeyboardInterrupt, SystemExit) as why:
            print(f"ended early: {why}")
        for w in workers:
            w.process.kill()
            w.process.wait()
        ran, wrong, refused = (sum(w.total()[i] for w in workers) for i in range(3))
        reasons = sum((w.refusals() for w in workers), collections.Counter()).most_common()
    reasons = "".join(f"{count:6} {text}\n" for text, count in reasons)
    if options.refusals:
        print(reasons, end="")
    line = (
        f"{ran} programs of seed {options.seed} on {options.device} in "
        f"{time.monotonic() - start:.0f} s: {wrong} differ, {refused} refused"
    )
    print(line, flush=True)
    if options.out:
        (Path(options.out) / "count.txt").write_text(f"{reasons}{line}\n")
    return wrong != 0 or ran == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=0, help="end after this time; 0: never")
    parser.add_argument("--out", default="", help="a folder for programs that differ")
    parser.add_argument("--refusals", action="store_true", help="say why programs are refused")
    for name in ("--first", "--at", "--child"):  # of the processes it starts
        kind = {"action": "store_true"} if name == "--child" else {"default": ""}
        parser.add_argument(name, help=argparse.SUPPRESS, **kind)
    options = parser.parse_args()
    options.first = int(options.first or 0)
    if options.device.startswith("cuda") and not mica.cuda.is_available():
        print(f"skipped: no CUDA device: {mica.cuda.unavailable_reason()}")
        return 0
    return run_here(options) if options.child else run_workers(options)


if __name__ == "__main__":
    sys.exit(main())
