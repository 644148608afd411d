"""Programs in processes of their own, many at once."""

import concurrent.futures
import itertools
import os
import resource
import subprocess
import sys
import threading
import time

MOST_FOUND = 50  # after which a group ends
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


def seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Group:
    """The time that a group has, what it is to reach of each kind, what it did and found."""

    def __init__(self, name, seconds, seed, goal=None, jobs=1):
        self.name, self.seconds, self.seed, self.goal, self.jobs = name, seconds, seed, goal, jobs
        self.begin, self.before = time.monotonic(), seconds_of_children()
        self.took = self.cpu = 0.0
        self.counts = {}  # of each kind
        self.found = []
        self.lock = threading.Lock()

    def left(self):
        return self.seconds - (time.monotonic() - self.begin)

    def add(self, kind, count=1):
        with self.lock:
            self.counts[kind] = self.counts.get(kind, 0) + count

    def find(self, text):
        with self.lock:
            self.found.append(text)

    def wants(self, kind):
        """Whether there is time for more of that kind, and more is to be reached."""
        if self.left() <= 0 or len(self.found) > MOST_FOUND:
            return False
        return self.goal is None or self.counts.get(kind, 0) < self.goal

    def is_whole(self):
        return self.goal is not None and all(n >= self.goal for n in self.counts.values())

    def turns(self, kinds, work):
        """Calls work(kind, number) with growing numbers for the kinds in turn, `jobs` at once,
        until none is wanted any more."""
        for kind in kinds:
            self.add(kind, 0)

        numbers = itertools.count()

        def go_on(_):
            while wanted := [kind for kind in kinds if self.wants(kind)]:
                number = next(numbers)
                work(wanted[number % len(wanted)], number)

        self.at_once(go_on, range(self.jobs))

    def at_once(self, work, items):
        """Calls work(item) for each item, `jobs` at once."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(work, items))
        self.took = time.monotonic() - self.begin
        self.cpu = seconds_of_children() - self.before

    def numbers(self):
        names = ("name", "seed", "counts", "goal", "found", "jobs")
        return {name: getattr(self, name) for name in names} | {
            "whole": self.is_whole(),
            "seconds": round(self.took, 1),
            "core_seconds": round(self.cpu, 1),
        }

    def __str__(self):
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        goal = f" (of {self.goal}{' each' if len(self.counts) > 1 else ''})" if self.goal else ""
        return (
            f"{self.name}: {counts}{goal}: {len(self.found)} found; {self.took:.0f} s, "
            f"{self.cpu:.0f} core-seconds"
        )


def in_child(group, kind, program, *arguments):
    """Runs a program that prints numbers and findings for some seconds, the last argument that it
    is given, and adds what it prints."""
    share = group.seconds * group.jobs / len(group.counts)  # each kind has its turn
    span = max(0.2, min(20, share, group.left()))
    status, out, err = finish(start([program, *arguments, span]), timeout=span + 60)
    lines = out.splitlines()
    group.add(kind, sum(int(line) for line in lines if line.isdigit()))
    for line in lines:
        if line.startswith("found "):
            group.find(line)
    if status != 0:
        group.find(f"{program} {arguments}: {status}: {(out + err)[-600:]}")
