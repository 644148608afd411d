"""Every operator against JAX on random cases: values, and gradients with random cotangents.

    python tests/oracle [--seed N] [--only OP …] [--case N] [--scale X] [--jobs N]

mica and jax must be importable. When all agree, a line of progress (on a terminal) and a summary
are all that is printed.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from worker import TABLE, run_operator, uncovered

DEFAULT_SEED = 20240607


def parse():
    parser = argparse.ArgumentParser(prog="oracle", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--only", nargs="+", metavar="OP", help="these entries of the table alone")
    parser.add_argument("--case", type=int, help="this case alone, as a failure names it")
    parser.add_argument("--scale", type=float, default=1.0, help="times as many cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    unknown = [name for name in options.only or () if name not in TABLE]
    if unknown:
        parser.error(f"no entry for {', '.join(unknown)}")
    return options


def show_progress(text):
    if sys.stderr.isatty():
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def main():
    options = parse()
    start = time.monotonic()
    jobs = {}
    for name in options.only or TABLE:
        count = max(1, round(TABLE[name].cases * options.scale))
        jobs[name] = list(range(count)) if options.case is None else [options.case]
    total = sum(map(len, jobs.values()))
    done, failures = 0, []
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        running = {
            pool.submit(run_operator, name, options.seed, numbers): name
            for name, numbers in jobs.items()
        }
        for future in as_completed(running):
            name = running[future]
            found = future.result()
            failures += found
            done += len(jobs[name])
            if found:  # at once: a run that is ended says what it found
                show_progress("")
                print(*found, sep="\n", flush=True)
            show_progress(f"{done}/{total} cases, {len(failures)} disagree: {name}")
    show_progress("")
    missing = uncovered()
    for line in missing:
        print(line)
    print(
        f"oracle: {total} cases of {len(jobs)} entries, seed {options.seed}: "
        f"{len(failures)} disagree, {len(missing)} operators not covered, "
        f"{time.monotonic() - start:.0f} s"
    )
    sys.exit(1 if failures or missing else 0)


if __name__ == "__main__":
    main()
