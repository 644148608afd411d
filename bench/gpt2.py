"""GPT-2 124M in mica beside PyTorch on one CUDA device: training and generation, by turns.

    PYTHONPATH=build/cuda/python python bench/gpt2.py [--torch PYTHON] [--rows pure amp generate]

`pure`: 16 sequences of 1,024 tokens, weights and states bf16; `amp`: 64 sequences, weights f32,
autocast to bf16; both with AdamW, vocabulary 50,304, the whole step compiled. `generate`: one
sequence, weights bf16, the likeliest token each time, tokens 256 to 512 with keys and values in
memory for 1,024. PyTorch's side is peers/torch_gpt.py: torch.compile, for generation with
mode="reduce-overhead". Each library runs in a process of its own; the two take turns, and the
median of the rounds counts.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROWS = {"pure": 16, "amp": 64, "generate": 1}
VOCABULARY, LENGTH = 50304, 1024
BEGIN, END = 256, 512  # of the tokens that are timed


def mica_training(row, batch):
    import mica

    bf16 = mica.bfloat16
    net = mica.models.gpt2(vocab_size=VOCABULARY).to("cuda")
    if row == "pure":
        net.to(dtype=bf16)
    optimizer = mica.optim.AdamW(net.parameters(), lr=3e-4)
    tokens, targets = (mica.randint(0, VOCABULARY, (batch, LENGTH), device="cuda") for _ in "xy")

    @mica.compile
    def step():
        optimizer.zero_grad()
        with mica.autocast("cuda", dtype=bf16, enabled=row == "amp"):
            logits = net(tokens)
            flat = logits.reshape(-1, VOCABULARY)
            loss = mica.nn.functional.cross_entropy(flat, targets.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    def steps(count):
        for _ in range(count):
            loss = step()
        return loss.item()

    return steps


def mica_generation():
    import mica

    net = mica.models.gpt2(vocab_size=VOCABULARY).to("cuda").to(dtype=mica.bfloat16)
    prompt = mica.randint(0, VOCABULARY, (1, 1), device="cuda")

    def seconds(count):
        mica.cuda.synchronize()
        begin = time.perf_counter()
        mica.models.gpt2_generate(net, prompt, count).cpu()
        return time.perf_counter() - begin

    # Both capture the step anew, which the difference does not have.
    return lambda: (seconds(END) - seconds(BEGIN)) / (END - BEGIN)


def torch_training(row, batch):
    import torch
    from peers import torch_gpt

    net = torch_gpt.GPT().cuda()
    if row == "pure":
        net = net.bfloat16()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=True)
    forward = torch.compile(net)
    tokens, targets = torch.randint(VOCABULARY, (2, batch, LENGTH), device="cuda")

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=row == "amp"):
                loss = forward(tokens, targets)
            loss.backward()
            optimizer.step()
        return loss.item()

    return steps


def torch_generation():
    import torch
    from peers import torch_gpt
    from torch.nn import functional

    heads, width = torch_gpt.H, torch_gpt.C // torch_gpt.H

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torch_gpt.GPT()
            for i in range(len(self.net.blocks)):
                for name in ("keys", "values"):  # buffers: a CUDA graph may write to them
                    self.register_buffer(f"{name}{i}", torch.zeros(1, heads, LENGTH, width))
            self.register_buffer("places", torch.arange(LENGTH))

        def forward(self, token, place):
            net = self.net
            x = (net.wte(token) + net.wpe(place))[None]
            seen = (self.places <= place)[None, None, None]
            for i, block in enumerate(net.blocks):
                qkv = block.qkv(block.ln1(x)).view(1, 1, 3, heads, width).permute(2, 0, 3, 1, 4)
                q, k, v = qkv
                keys, values = getattr(self, f"keys{i}"), getattr(self, f"values{i}")
                keys[:, :, place] = k
                values[:, :, place] = v
                y = functional.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
                x = x + block.proj(y.transpose(1, 2).reshape(1, 1, -1))
                x = x + block.out(functional.gelu(block.fc(block.ln2(x)), approximate="tanh"))
            logits = functional.linear(net.lnf(x[:, -1]), net.wte.weight)
            return logits.argmax(-1)

    step = Step().cuda().bfloat16().eval()
    compiled = torch.compile(step, mode="reduce-overhead", fullgraph=True)

    @torch.no_grad()
    def generate(count):
        token = torch.zeros(1, dtype=torch.long, device="cuda")
        place = torch.full((1,), END - count, device="cuda")
        for _ in range(count):
            token = compiled(token, place).clone()
            place += 1
        return token.item()

    def seconds_per_token():
        generate(8)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        generate(END - BEGIN)
        return (time.perf_counter() - begin) / (END - BEGIN)

    return seconds_per_token


def peak_gib(library):
    module = __import__(library)
    return module.cuda.max_memory_allocated() / 2**30


def worker(library, count, batches):
    """Answers each row's name with seconds (of a step, or of a token), a loss and peak memory."""
    module = __import__(library)
    module.manual_seed(0)
    if library == "mica":
        module.set_allow_tf32(True)
        module.set_autotune(True)
        training, generation = mica_training, mica_generation
    else:
        module.set_float32_matmul_precision("high")
        training, generation = torch_training, torch_generation
    prepared = {}
    for line in sys.stdin:
        row = line.strip()
        first = row not in prepared
        if first:
            made = generation() if row == "generate" else training(row, batches[row])
            prepared[row] = made
        if row == "generate":
            if first:
                made()
            seconds, loss = prepared[row](), None
        else:
            if first:
                made(6)
            begin = time.perf_counter()
            loss = prepared[row](count)
            seconds = (time.perf_counter() - begin) / count
        answer = {"seconds": seconds, "loss": loss, "peak_gib": peak_gib(library)}
        print("answer", json.dumps(answer), flush=True)


class Peer:
    def __init__(self, library, python, arguments):
        command = [python, __file__, "--worker", library, *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def ask(self, row):
        self.process.stdin.write(row + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("answer "):
                return json.loads(line.removeprefix("answer "))
        raise RuntimeError("the process ended")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--torch", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--amp-batch", type=int, default=ROWS["amp"])
    parser.add_argument("--worker")
    o = parser.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    batches = ROWS | {"amp": o.amp_batch}
    if o.worker:
        return worker(o.worker, o.steps, batches)
    print("| row | PyTorch | mica | times as fast | PyTorch, GiB | mica, GiB | losses |")
    print("|---|---|---|---|---|---|---|")
    for row in o.rows:
        # Anew for each row: what the rows before keep in memory is given back.
        shared = ["--steps", str(o.steps), "--amp-batch", str(o.amp_batch)]
        peers = {
            "torch": Peer("torch", o.torch, shared),
            "mica": Peer("mica", sys.executable, shared),
        }
        rounds = [{name: p.ask(row) for name, p in peers.items()} for _ in range(o.rounds)]
        for p in peers.values():
            p.end()
        torch, mica = ({k: [r[n][k] for r in rounds] for k in rounds[0][n]} for n in peers)
        theirs, ours = (statistics.median(side["seconds"]) for side in (torch, mica))
        if row == "generate":
            said = [f"{1e3 * s:.3f} ms/token" for s in (theirs, ours)]
            losses = ""
        else:
            said = [f"{batches[row] * LENGTH / s:,.0f} tokens/s" for s in (theirs, ours)]
            losses = f"{torch['loss'][-1]:.3f}, {mica['loss'][-1]:.3f}"
        memory = [f"{max(side['peak_gib']):.1f}" for side in (torch, mica)]
        cells = [f"{row}, batch {batches[row]}", *said, f"{theirs / ours:.3f}", *memory, losses]
        print(f"| {' | '.join(cells)} |", flush=True)
    return None


if __name__ == "__main__":
    main()
