"""mica and PyTorch by turns, in processes of their own: what fft.py and linalg.py share."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time


def worker(library, calls, options, clock):
    """Answers each line, the name of a call, with microseconds."""
    module = __import__(library)
    module.set_num_threads(options.threads)
    prepared = calls(module, options.device)
    wait = module.cuda.synchronize if options.device == "cuda" else lambda: None
    for line in sys.stdin:
        call = prepared[json.loads(line)]
        call()
        wait()
        begin = clock()
        call()
        wait()
        count = max(1 if options.device == "cuda" else 3, int(0.03 / (clock() - begin + 1e-7)))
        begin = clock()
        for _ in range(count):
            call()
        wait()
        print((clock() - begin) / count * 1e6, flush=True)


class Process:
    def __init__(self, python, arguments):
        command = [python, sys.argv[0], *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def microseconds(self, name, pause):
        time.sleep(pause)
        self.process.stdin.write(json.dumps(name) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main(calls, names, description):
    """`calls(library, device)` is a dictionary of functions, whose keys `names(device)` lists."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--torch", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true", help="what each process computed")
    parser.add_argument("--only", default="", help="calls whose names have this in them")
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        clock = time.process_time if options.cpu_time else time.perf_counter
        return worker(options.worker, calls, options, clock)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    # Idle threads of the other library look for work for a while, on cores that this one needs.
    pause = 0.3 if options.threads > 1 else 0
    shared = ["--threads", str(options.threads), "--device", options.device]
    shared += ["--cpu-time"] * options.cpu_time
    libraries = {"mica": sys.executable, "torch": options.torch}
    processes = {name: Process(p, ["--worker", name, *shared]) for name, p in libraries.items()}
    print("| call | PyTorch, µs | mica, µs | times as fast |\n|---|---|---|---|")
    ratios = []
    for name in names(options.device):
        if options.only not in name:
            continue
        rounds = [
            {library: p.microseconds(name, pause) for library, p in processes.items()}
            for _ in range(options.rounds)
        ]
        middle = {k: statistics.median(r[k] for r in rounds) for k in libraries}
        # Of rounds: what else the machine does comes and goes, and both of a round see the same.
        ratios.append(statistics.median(r["torch"] / r["mica"] for r in rounds))
        print(
            f"| {name} | {middle['torch']:.1f} | {middle['mica']:.1f} | {ratios[-1]:.2f} |",
            flush=True,
        )
    print(f"\nmedian {statistics.median(ratios):.2f}, least {min(ratios):.2f}")
    return None
