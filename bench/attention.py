"""Attention on the CPU beside PyTorch's: forward, and forward with all gradients.

    PYTHONPATH=build/release/python python bench/attention.py [--torch PYTHON] [--threads 2]

Each library runs in a process of its own, mica in this interpreter, PyTorch in --torch; the two
take turns, and of each the median of the rounds counts. Prints a table of milliseconds, with
--cpu-time of those that the process computed: on a machine that does other work too, with one
thread, these are the ones to compare.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# name, batch, heads, queries, keys, width of a head, causal
CASES = [
    ("GPT-2, 1024 tokens, causal", 1, 12, 1024, 1024, 64, True),
    ("GPT-2, 1024 tokens", 1, 12, 1024, 1024, 64, False),
    ("MiniLM, 16 texts of 128 tokens", 16, 12, 128, 128, 32, False),
    ("ViT-B/16, 4 images", 4, 12, 197, 197, 64, False),
    ("one long sequence, causal", 1, 4, 4096, 4096, 64, True),
    ("heads of 128, causal", 1, 8, 512, 512, 128, True),
    ("one query, 2048 keys", 1, 32, 1, 2048, 128, False),
]


def worker(library, threads, clock):
    """Answers each line, a case and whether with gradients, with milliseconds."""
    import numpy as np

    if library == "torch":
        import torch as lib
        import torch.nn.functional as F
    else:
        import mica as lib
        import mica.nn.functional as F
    lib.set_num_threads(threads)
    prepared = {}
    for line in sys.stdin:
        number, grad = json.loads(line)
        _, batch, heads, queries, keys, width, causal = CASES[number]
        if (number, grad) not in prepared:
            rng = np.random.default_rng(number)
            arrays = [
                rng.standard_normal((batch, heads, n, width), dtype=np.float32)
                for n in (queries, keys, keys)
            ]
            tensors = [lib.tensor(a) for a in arrays]
            for t in tensors:
                t.requires_grad = grad
            prepared[number, grad] = tensors, lib.tensor(arrays[0])
        (q, k, v), cotangent = prepared[number, grad]

        def run(q=q, k=k, v=v, cotangent=cotangent, grad=grad, causal=causal):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            if grad:
                q.grad = k.grad = v.grad = None
                y.backward(cotangent)

        run()
        begin, count = clock(), 0
        while count < 3 or clock() - begin < 0.15:
            run()
            count += 1
        print((clock() - begin) / count * 1e3, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        clock = time.process_time if options.cpu_time else time.perf_counter
        worker(options.worker, options.threads, clock)
        return

    def start(library, python):
        command = [python, __file__, "--worker", library, "--threads", str(options.threads)]
        command += ["--cpu-time"] * options.cpu_time
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    processes = {"mica": start("mica", sys.executable), "torch": start("torch", options.torch)}

    def measure(library, number, grad):
        process = processes[library]
        process.stdin.write(json.dumps([number, grad]) + "\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    print("| attention, f32 | | PyTorch, ms | mica, ms | times as fast |")
    print("|---|---|---|---|---|")
    for number, case in enumerate(CASES):
        for grad in (False, True):
            times = {"mica": [], "torch": []}
            for _ in range(options.rounds):
                for library, found in times.items():
                    found.append(measure(library, number, grad))
            ours, theirs = (statistics.median(times[name]) for name in ("mica", "torch"))
            what = "forward + backward" if grad else "forward"
            print(f"| {case[0]} | {what} | {theirs:.2f} | {ours:.2f} | {theirs / ours:.2f} |")
    for process in processes.values():
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()
