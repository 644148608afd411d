"""Attention beside PyTorch's: on the CPU forward, and forward with all gradients, in f32; with
--device cuda forward and backward alone, in bf16.

    PYTHONPATH=build/release/python python bench/attention.py [--torch PYTHON] [--threads 2]
    PYTHONPATH=build/cuda/python python bench/attention.py --device cuda [--kernel cudnn wgmma]

Each library runs in a process of its own, mica in this interpreter, PyTorch in --torch; the two
take turns, and of each the median of the rounds counts. Prints a table of milliseconds, with
--cpu-time of those that the process computed: on a machine that does other work too, with one
thread, these are the ones to compare. On a GPU it is microseconds of a call among many, PyTorch's
by cuDNN and by flash, mica's by each --kernel. There q, k and v are dense, or (`one tensor`) parts
of what one layer made; what PyTorch's gradients are copied to in that case is not counted.
"""

import argparse
import contextlib
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

# name, batch, heads, queries, width of a head, causal, q, k and v in one tensor
CUDA_CASES = [
    ("16 x 1024, 12 heads of 64, causal", 16, 12, 1024, 64, True, False),
    ("the same, one tensor", 16, 12, 1024, 64, True, True),
    ("16 x 1024, 12 heads of 64", 16, 12, 1024, 64, False, False),
    ("4 x 4096, 12 heads of 64, causal", 4, 12, 4096, 64, True, False),
    ("4 x 4096, 16 heads of 128, causal", 4, 16, 4096, 128, True, False),
]


def cuda_calls(library, case, backend):
    """Functions that compute attention and its gradients, of operands with the same layout."""
    _, batch, heads, length, width, causal, packed = case
    shape = (batch, length, 3, heads, width) if packed else (3, batch, heads, length, width)
    if library == "torch":
        import torch as lib
        from torch.nn import attention, functional

        def context():
            return attention.sdpa_kernel(chosen)

        chosen = {
            "cudnn": attention.SDPBackend.CUDNN_ATTENTION,
            "flash": attention.SDPBackend.FLASH_ATTENTION,
        }[backend]
        all_three = lib.randn(shape, device="cuda", dtype=lib.bfloat16)
        parts = all_three.permute(2, 0, 3, 1, 4) if packed else all_three
        operands = [p.detach().requires_grad_() for p in parts]
        grad = lib.autograd.grad
    else:
        import mica as lib
        import mica.nn.functional as functional

        lib.force_kernel("attention", backend)
        lib.force_kernel("attention_grad", backend)
        context = contextlib.nullcontext
        made = [lib.randn(*shape, device="cuda").to(dtype=lib.bfloat16)]
        if not packed:
            made = [made[0][i].clone() for i in range(3)]
        operands = []
        for p in made:
            p.requires_grad = True
            operands.append(p)
        grad = lib.autograd.grad

    def forward():
        if library == "mica" and packed:
            flat = operands[0].reshape(batch, length, -1)
            return functional.packed_attention(flat, heads, is_causal=causal)
        return functional.scaled_dot_product_attention(*operands, is_causal=causal)

    with context():
        y = forward()
    dy = lib.randn(*y.shape, device="cuda").to(dtype=lib.bfloat16)

    def run_forward():
        with lib.no_grad(), context():
            forward()

    def run_backward():
        grad([y], operands, [dy], retain_graph=True)

    return lib.cuda.synchronize, run_forward, run_backward


def cuda_worker(library):
    """Answers each line, a case, the kernel and whether backward, with microseconds."""
    prepared = {}
    for line in sys.stdin:
        key = number, backend, back = tuple(json.loads(line))
        if key[:2] not in prepared:
            try:
                prepared[key[:2]] = cuda_calls(library, CUDA_CASES[number], backend)
            except Exception as e:  # a kernel that does not take it
                print(f"{library} {backend}: {str(e)[:200]}", file=sys.stderr, flush=True)
                prepared[key[:2]] = None
        if prepared[key[:2]] is None:
            print("nan", flush=True)
            continue
        wait, *calls = prepared[key[:2]]
        if library == "mica":
            import mica

            mica.force_kernel("attention", backend)
            mica.force_kernel("attention_grad", backend)
        call = calls[back]
        for _ in range(5):
            call()
        wait()
        count = 50
        begin = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        print((time.perf_counter() - begin) / count * 1e6, flush=True)


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


def compare_on_cuda(measure, options):
    asked = [("torch", "cudnn"), ("torch", "flash"), *(("mica", k) for k in options.kernel)]
    print(f"| attention, bf16, µs | | {' | '.join(f'{who}, {by}' for who, by in asked)} |")
    print("|---" * (2 + len(asked)) + "|")
    for number, case in enumerate(CUDA_CASES):
        for back in (False, True):
            times = {who: [] for who in asked}
            for _ in range(options.rounds):
                for (library, backend), found in times.items():
                    found.append(measure(library, number, backend, back))
            said = " | ".join(f"{statistics.median(t):.1f}" for t in times.values())
            print(f"| {case[0]} | {'backward' if back else 'forward'} | {said} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--kernel", nargs="+", default=["cudnn"], help="mica's, on a GPU")
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        if options.device == "cuda":
            cuda_worker(options.worker)
            return
        clock = time.process_time if options.cpu_time else time.perf_counter
        worker(options.worker, options.threads, clock)
        return

    def start(library, python):
        command = [python, __file__, "--worker", library, "--threads", str(options.threads)]
        command += ["--device", options.device]
        command += ["--cpu-time"] * options.cpu_time
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    processes = {"mica": start("mica", sys.executable), "torch": start("torch", options.torch)}

    def measure(library, *question):
        process = processes[library]
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    if options.device == "cuda":
        compare_on_cuda(measure, options)
        return
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
