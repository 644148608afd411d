"""Sparse matrices (CSR, f32): times a dense matrix, beside SciPy and PyTorch on the CPU; with
--device cuda also times each other and softmax over rows, beside PyTorch.

    PYTHONPATH=build/release/python python bench/sparse.py [--scipy PYTHON] [--torch PYTHON]
    PYTHONPATH=build/release/python python bench/sparse.py --device cuda [--torch PYTHON]

Each library runs in a process of its own, mica in this interpreter; they take turns, and of each
the median of the rounds counts. Prints a table of milliseconds, with --cpu-time of those that the
process computed: on a machine that does other work too, with one thread, these are the ones to
compare. The floor is what the operands and the result take at the bandwidth of a copy. Softmax is
PyTorch's of the same matrix as COO: it has none of CSR.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time

# what is computed, rows = columns, density, columns of the dense operand
CPU_CASES = [
    ("mm", 4096, 0.01, 1),
    ("mm", 4096, 0.01, 64),
    ("mm", 4096, 0.01, 512),
    ("mm", 4096, 0.1, 1),
    ("mm", 4096, 0.1, 64),
    ("mm", 4096, 0.1, 512),
    ("mm", 50_000, 0.0002, 64),
]
CUDA_CASES = [
    *CPU_CASES,
    ("mm", 4096, 0.01, 16),
    ("mm", 4096, 0.01, 128),
    ("mm", 4096, 0.1, 16),
    ("mm", 4096, 0.1, 128),
    ("mm", 16_384, 0.01, 64),
    ("product", 4096, 0.01, 0),
    ("product", 50_000, 0.0002, 0),
    ("softmax", 4096, 0.01, 0),
    ("softmax", 4096, 0.1, 0),
    ("softmax", 50_000, 0.0002, 0),
]


@functools.cache
def matrix(size, density):
    """The parts of a CSR matrix, columns in order, with indices of 64 bits."""
    import numpy as np

    rng = np.random.default_rng(0)
    places = np.unique(rng.integers(0, size * size, round(size * size * density)))
    crow = np.searchsorted(places, np.arange(size + 1) * size)
    return crow, places % size, rng.standard_normal(len(places), dtype=np.float32)


def operation(library, device, case, grad):
    """A function of nothing that computes the case, with its gradients if wanted."""
    import numpy as np

    kind, size, density, width = case
    crow, col, values = matrix(size, density)
    x = np.random.default_rng(1).standard_normal((size, width), dtype=np.float32)
    if library == "scipy":
        import scipy.sparse

        a = scipy.sparse.csr_array((values, col, crow), shape=(size, size))
        return lambda: a @ x
    lib = __import__(library)
    parts = (lib.tensor(part, device=device) for part in (crow, col, values))
    a = lib.sparse_csr_tensor(*parts, (size, size))
    if kind == "product":
        return lambda: a @ a
    if kind == "softmax":
        if library == "torch":
            a = a.to_sparse_coo().coalesce()
        return lambda: lib.sparse.softmax(a, 1)
    x = lib.tensor(x, device=device)
    if not grad:
        return lambda: a @ x
    x.requires_grad = True

    def run():
        x.grad = None
        (a @ x).backward(cotangent)

    cotangent = x.detach()
    return run


def worker(library, options, clock):
    """Answers each line, a case and whether with gradients, with milliseconds."""
    cuda = options.device == "cuda"
    lib = __import__(library) if library != "scipy" else None
    if lib and not cuda:
        lib.set_num_threads(options.threads)
    wait = lib.cuda.synchronize if cuda else lambda: None
    prepared = {}
    for line in sys.stdin:
        case, grad = json.loads(line)
        if (case, grad) not in prepared:
            prepared[case, grad] = operation(library, options.device, options.cases[case], grad)
        run = prepared[case, grad]
        for _ in range(3 if cuda else 1):
            run()
        wait()
        begin, count = clock(), 0
        while count < 3 or clock() - begin < (0.04 if cuda else 0.15):
            for _ in range(10 if cuda else 1):
                run()
                count += 1
            wait()
        print((clock() - begin) / count * 1e3, flush=True)


def bandwidth(options, clock):
    """Bytes a second that copies of 128 MB, on CUDA of 1 GB, read and write."""
    import mica

    cuda = options.device == "cuda"
    if not cuda:
        mica.set_num_threads(options.threads)
    x = mica.zeros((256 if cuda else 32) << 20, device=options.device)
    y = x.clone()
    times = []
    for _ in range(7):
        begin = clock()
        y.copy_(x)
        if cuda:
            mica.cuda.synchronize()
        times.append(clock() - begin)
    return 2 * 4 * x.numel() / min(times)


def floor_bytes(kind, size, density, width):
    """None where it depends on the result."""
    if kind == "product":
        return None
    entries = size * size * density
    return entries * 8 if kind == "softmax" else entries * 12 + size * 8 + 2 * size * width * 4


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--scipy", default=sys.executable)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--worker")
    options = parser.parse_args()
    cuda = options.device == "cuda"
    options.cases = CUDA_CASES if cuda else CPU_CASES
    clock = time.process_time if options.cpu_time else time.perf_counter
    if options.worker:
        return worker(options.worker, options, clock)

    pythons = {"torch": options.torch, "scipy": options.scipy, "mica": sys.executable}
    if cuda:
        del pythons["scipy"]
    arguments = ["--threads", str(options.threads), "--device", options.device]
    arguments += ["--cpu-time"] * options.cpu_time
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

    def shown(milliseconds):
        return "" if milliseconds is None else f"{milliseconds:.{4 if cuda else 2}f}"

    rate = bandwidth(options, clock)
    print(f"a copy moves {rate / 1e9:.1f} GB/s\n")
    names = {"torch": "PyTorch", "scipy": "SciPy", "mica": "mica"}
    peers = [name for name in workers if name != "mica"]
    columns = ["", "matrix", "density", "width", ""]
    columns += [f"{names[name]}, ms" for name in workers] + ["floor, ms"]
    columns += [f"times {names[name]}" for name in peers]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for number, (kind, size, density, width) in enumerate(options.cases):
        for grad in (False, True) if kind == "mm" else (False,):
            asked = [name for name in workers if not (grad and name == "scipy")]
            times = {name: [] for name in asked}
            for _ in range(options.rounds):
                for name in asked:
                    times[name].append(ask(name, number, grad))
            median = {name: statistics.median(times[name]) for name in asked}
            moved = None if grad else floor_bytes(kind, size, density, width)
            cells = [kind, f"{size} x {size}", f"{density * 100:g} %", str(width or "")]
            cells += ["forward + backward" if grad else "forward"]
            cells += [shown(median.get(name)) for name in workers]
            cells += [shown(moved and moved / rate * 1e3)]
            cells += [f"{median[n] / median['mica']:.2f}" if n in median else "" for n in peers]
            print("| " + " | ".join(cells) + " |", flush=True)
    for process in workers.values():
        process.stdin.close()


if __name__ == "__main__":
    main()
