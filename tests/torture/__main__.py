"""Torture: files, calls, kills, exits and disks that are meant to break mica.

    python tests/torture [--seconds N] [--whole] [--seed N] [GROUP…]

Each group goes on for that long (60 s) and prints how much it did and what it found: a crash, a
hang, an error that is not one of mica's or Python's own, other bits at the end of a run. With
--whole a group ends when it has done what WHOLE says, or when its time is over; each line then
says how much of it was reached.
scripts/test --torture runs it; a few seconds of each are in the default suite
(tests/python/test_torture.py).
"""

import argparse
import sys

import calls
import disk
import exits
import files
import kills
import saved

GROUPS = {
    "files": files.torture,
    "saved": saved.torture,
    "calls": calls.torture,
    "kills": kills.torture,
    "exits": exits.torture,
    "disk": disk.torture,
}

WHOLE = {
    "files": 1_000_000,  # for each reader
    "calls": 1_000_000,
    "kills": 1_000,
    "exits": 500,
    "disk": None,  # every call that changes a file, as full and as broken
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("groups", nargs="*", choices=[[], *GROUPS], default=[])
    options = parser.parse_args()
    failed = False
    for name in options.groups or GROUPS:
        goal = WHOLE[name] if options.whole else None
        done, found = GROUPS[name](options.seconds, options.seed, goal)
        of = f" of {goal}" if goal else ""
        print(f"{name}: {done}{of}, {len(found)} found", flush=True)
        for text in found[:20]:
            print("  ", text, flush=True)
        failed = failed or bool(found)
    return failed


if __name__ == "__main__":
    sys.exit(main())
