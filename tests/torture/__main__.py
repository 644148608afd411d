"""Torture: files, calls, threads, kills, exits and disks that are meant to break mica.

    python tests/torture [--seconds N] [--jobs N] [--whole] [--seed N] [--json FILE] [GROUP…]

Each group goes on for that long (60 s) in that many processes at once and prints one line: how much
it did and how much it found: a crash, a hang, an error that is not one of mica's or Python's own,
other bits at the end of a run. With --whole a group ends when it has done what WHOLE says, or when
its time is over; that is then a failure too.
scripts/test --torture runs it; a few seconds of each are in the default suite
(tests/python/test_torture.py).
"""

import argparse
import json
import os
import sys

import calls
import disk
import exits
import files
import kills
import threads
from child import Group

GROUPS = {
    "files": files.torture,
    "calls": calls.torture,
    "threads": threads.torture,
    "kills": kills.torture,
    "exits": exits.torture,
    "disk": disk.torture,
}

# How much of each kind that a group counts; a disk counts the failures it has to make itself.
WHOLE = {"files": 1_000_000, "calls": 1_000_000, "threads": 10_000, "kills": 200, "exits": 100}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for each group")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--json", help="a file for the same numbers")
    parser.add_argument("groups", nargs="*", choices=[[], *GROUPS], default=[])
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # whose driver wants more memory than is left
    done = []
    for name in options.groups or GROUPS:
        goal = WHOLE.get(name) if options.whole else None
        group = Group(name, options.seconds, options.seed, goal, options.jobs)
        GROUPS[name](group)
        print(group, flush=True)
        for text in group.found[:8]:
            print("  ", text, flush=True)
        done.append(group)
        if options.json:
            with open(options.json, "w") as file:
                json.dump([g.numbers() for g in done], file, indent=1)
    return any(g.found or (options.whole and not g.is_whole()) for g in done)


if __name__ == "__main__":
    sys.exit(main())
