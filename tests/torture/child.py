"""Programs in processes of their own."""

import os
import resource
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def start(arguments, **variables):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
        cwd=HERE,
        env={**os.environ, **variables},
    )


def finish(process, timeout):
    """Its exit status ("hang" where it has none), stdout and stderr."""
    try:
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        process.kill()
        return "hang", *process.communicate()


def limit_memory(more):
    """Bytes that this process may take beyond what it has."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))


class Clock:
    """Whether there is time for more."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return self.end - time.monotonic()

    def __bool__(self):
        return self.left() > 0


def in_children(program, seconds, seed, *arguments, goal=None, each=20):
    """Runs a program that prints numbers and findings for that long, or until the sum of the
    numbers is the goal: the sum, and the findings."""
    clock, total, found = Clock(seconds), 0, []
    while clock and (goal is None or total < goal):
        span = max(0.2, min(each, clock.left()))
        status, out, err = finish(start([program, *arguments, seed, span]), timeout=span + 60)
        lines = out.splitlines()
        total += sum(int(line) for line in lines if line.isdigit())
        found += [line for line in lines if line.startswith("found ")]
        if status != 0:
            found.append(f"{program} {arguments} {seed}: {status}: {(out + err)[-600:]}")
        seed += 1
    return total, found
