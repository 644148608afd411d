"""A sparse matrix (CSR, f32) times a dense one on the CPU, beside SciPy and PyTorch.

    PYTHONPATH=build/release/python python bench/sparse.py [--scipy PYTHON] [--torch PYTHON]

Each library runs in a process of its own, mica in this interpreter; they take turns, and of each
the median of the rounds counts. Prints a table of milliseconds, with --cpu-time of those that the
process computed: on a machine that does other work too, with one thread, these are the ones to
compare. The floor is what the operands and the result take at the bandwidth of a copy.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# rows = columns, density, columns of the dense operand
CASES = [
    (4096, 0.01, 1),
    (4096, 0.01, 64),
    (4096, 0.01, 512),
    (4096, 0.1, 1),
    (4096, 0.1, 64),
    (4096, 0.1, 512),
    (50_000, 0.0002, 64),
]


def matrix(size, density):
    """The parts of a CSR matrix, columns in order, with indices of 64 bits."""
    import numpy as np

    rng = np.random.default_rng(0)
    counts = rng.binomial(size, density, size)
    crow = np.concatenate([[0], np.cumsum(counts)])
    col = np.concatenate([np.sort(rng.choice(size, n, replace=False)) for n in counts])
    return crow, col, rng.standard_normal(len(col), dtype=np.float32)


def operation(library, case, grad):
    """A function of nothing that computes the product, with its gradients if wanted."""
    import numpy as np

    size, density, width = CASES[case]
    crow, col, values = matrix(size, density)
    x = np.random.default_rng(1).standard_normal((size, width), dtype=np.float32)
    if library == "scipy":
        import scipy.sparse

        a = scipy.sparse.csr_array((values, col, crow), shape=(size, size))
        return lambda: a @ x
    if library == "torch":
        import torch as lib
    else:
        import mica as lib
    a = lib.sparse_csr_tensor(*(lib.tensor(part) for part in (crow, col, values)), (size, size))
    x = lib.tensor(x)
    if not grad:
        return lambda: a @ x
    x.requires_grad = True

    def run():
        x.grad = None
        (a @ x).backward(cotangent)

    cotangent = x.detach()
    return run


def worker(library, threads, clock):
    """Answers each line, a case and whether with gradients, with milliseconds."""
    if library != "scipy":
        __import__(library).set_num_threads(threads)
    prepared = {}
    for line in sys.stdin:
        case, grad = json.loads(line)
        if (case, grad) not in prepared:
            prepared[case, grad] = operation(library, case, grad)
        run = prepared[case, grad]
        run()
        begin, count = clock(), 0
        while count < 3 or clock() - begin < 0.15:
            run()
            count += 1
        print((clock() - begin) / count * 1e3, flush=True)


def bandwidth(threads, clock):
    """Bytes a second that a copy of 256 MB reads and writes."""
    import mica

    mica.set_num_threads(threads)
    x = mica.zeros(32 << 20)
    y = x.clone()
    times = []
    for _ in range(7):
        begin = clock()
        y.copy_(x)
        times.append(clock() - begin)
    return 2 * 4 * (32 << 20) / min(times)


def floor_bytes(size, density, width):
    return size * size * density * 12 + size * 8 + 2 * size * width * 4


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--scipy", default=sys.executable)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--worker")
    options = parser.parse_args()
    clock = time.process_time if options.cpu_time else time.perf_counter
    if options.worker:
        return worker(options.worker, options.threads, clock)

    pythons = {"torch": options.torch, "scipy": options.scipy, "mica": sys.executable}
    arguments = ["--threads", str(options.threads)] + ["--cpu-time"] * options.cpu_time
    workers = {
        name: subprocess.Popen(
            [python, __file__, "--worker", name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, python in pythons.items()
    }

    def ask(name, case, grad):
        workers[name].stdin.write(json.dumps([case, grad]) + "\n")
        workers[name].stdin.flush()
        return float(workers[name].stdout.readline())

    rate = bandwidth(options.threads, clock)
    print(f"a copy moves {rate / 1e9:.1f} GB/s\n")
    print(
        "| matrix | density | width | | PyTorch, ms | SciPy, ms | mica, ms | floor, ms "
        "| times PyTorch | times SciPy |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for number, (size, density, width) in enumerate(CASES):
        for grad in (False, True):
            times = {name: [] for name in workers}
            for _ in range(options.rounds):
                for name, measured in times.items():
                    if not (grad and name == "scipy"):
                        measured.append(ask(name, number, grad))
            torch, mica = (statistics.median(times[name]) for name in ("torch", "mica"))
            scipy = statistics.median(times["scipy"]) if not grad else None
            floor = floor_bytes(size, density, width) / rate * 1e3
            print(
                f"| {size} x {size} | {density * 100:g} % | {width} "
                f"| {'forward + backward' if grad else 'forward'} | {torch:.2f} "
                f"| {f'{scipy:.2f}' if scipy else ''} | {mica:.2f} "
                f"| {f'{floor:.2f}' if not grad else ''} | {torch / mica:.2f} "
                f"| {f'{scipy / mica:.2f}' if scipy else ''} |",
                flush=True,
            )
    for process in workers.values():
        process.stdin.close()


if __name__ == "__main__":
    main()
