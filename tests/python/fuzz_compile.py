"""Random programs through the public API, run eagerly and compiled, and what NumPy has too beside
NumPy: everything that can be seen must be the same, or the compiled call says why it refuses.

    python tests/python/fuzz_compile.py --programs 10000 --seed 1
    python tests/python/fuzz_compile.py --device cuda --programs 5000 --jobs 16 --seconds 230

Half of the programs are chains of calls over all functions (fuzz_ops.py), half are functions of a
few statements whose surroundings change between calls (fuzz_programs.py). On CUDA each runs under
settings of its own: TF32, timing of kernels and deterministic mode, on or off. A program that ends
the process counts as one that differs.
"""

import argparse
import random
import subprocess
import sys
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

    end = time.monotonic() + 60
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
    def __init__(self):
        self.ran = self.wrong = 0
        self.refused = {}

    def add(self, text, refusal):
        self.ran += 1
        self.wrong += bool(text)
        if refusal:
            self.refused[refusal[:90]] = self.refused.get(refusal[:90], 0) + 1


def run_here(options):
    """One process's part of the programs. It says which it is at, so that a crash can be told."""
    end = time.monotonic() + options.seconds if options.seconds else None
    tally = Tally()
    for i, text, refusal in fuzz(
        options.programs, options.seed, options.device, options.first, options.jobs, end
    ):
        if text is None:
            if options.at:
                Path(options.at).write_text(f"{i} {tally.ran} {sum(tally.refused.values())}")
            continue
        tally.add(text, refusal)
        if text:
            print(f"program {i} of seed {options.seed}: {text}", flush=True)
    if options.refusals:
        for text, count in sorted(tally.refused.items(), key=lambda item: -item[1]):
            print(f"{count:6} {text}")
    refused = sum(tally.refused.values())
    print(f"{tally.ran} programs of seed {options.seed}: {tally.wrong} differ, {refused} refused")
    return tally.wrong != 0


class Worker:
    """A process that runs every n-th program, and another one where it died."""

    def __init__(self, options, number, folder):
        self.options, self.number = options, number
        self.at = folder / f"at-{number}"
        self.log = folder / f"log-{number}"
        self.end = time.monotonic() + options.seconds if options.seconds else None
        self.tally = Tally()
        self.start(number)

    def start(self, first):
        command = [sys.executable, __file__, "--child", "--first", str(first), "--at", str(self.at)]
        for name in ("programs", "seed", "device", "jobs"):
            command += [f"--{name}", str(getattr(self.options, name))]
        left = self.end - time.monotonic() if self.end else 0
        command += ["--seconds", str(max(1, left) if self.end else 0)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait(self):
        """What it ran, what differed and what was refused."""
        ran = wrong = refused = 0
        while True:
            code = self.process.wait()
            lines = self.log.read_text().splitlines()
            last = lines[-1].split() if lines else []
            if code in (0, 1) and "differ," in last:
                ran, refused = ran + int(last[0]), refused + int(last[-2])
                return ran, wrong + int(last[5]), refused, "\n".join(lines[:-1])
            i, before, more = map(int, self.at.read_text().split())
            with self.log.open("a") as log:
                log.write(
                    f"program {i} of seed {self.options.seed}: it ended the process: {code}\n"
                )
            ran, wrong, refused = ran + before + 1, wrong + 1, refused + more
            self.start(i + self.options.jobs)


def run_workers(options):
    import tempfile

    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        workers = [Worker(options, n, Path(folder)) for n in range(options.jobs)]
        done = [w.wait() for w in workers]
    for *_, text in done:
        if text:
            print(text)
    ran, wrong, refused = (sum(d[i] for d in done) for i in range(3))
    print(
        f"{ran} programs of seed {options.seed} on {options.device} in "
        f"{time.monotonic() - start:.0f} s: {wrong} differ, {refused} refused"
    )
    return wrong != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=0, help="end after this time; 0: never")
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
