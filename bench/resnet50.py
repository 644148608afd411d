#!/usr/bin/env python3
"""ResNet-50 training as `peers/torch_peer.py resnet50` does it, compiled; JSON lines.

    python3 bench/resnet50.py [bf16] [fp16] [tf32]

SGD with momentum, weights in f32 under autocast (fp16 with a GradScaler), 256 images, 128 in TF32.
Each precision runs in a process of its own, whose first call has an empty disk cache.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PRECISIONS = {"bf16": 256, "fp16": 256, "tf32": 128}


def measure(precision, batch):
    import mica
    from mica import nn

    mica.manual_seed(0)
    mica.set_allow_tf32(True)
    mica.set_autotune(True)
    dtype = {"bf16": mica.bfloat16, "fp16": mica.float16}.get(precision, mica.bfloat16)
    net = mica.models.resnet50().to("cuda")
    optimizer = mica.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5)
    scaler = mica.amp.GradScaler("cuda", enabled=precision == "fp16")
    x = mica.randn(batch, 3, 224, 224, device="cuda")
    y = mica.randint(0, 1000, (batch,), device="cuda")

    @mica.compile
    def step(x, y):
        optimizer.zero_grad()
        with mica.autocast("cuda", dtype=dtype, enabled=precision != "tf32"):
            loss = nn.functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    begin = time.perf_counter()
    step(x, y).item()
    first = time.perf_counter() - begin
    times = []
    for _ in range(6):
        begin = time.perf_counter()
        for _ in range(10):
            loss = step(x, y)
        loss.item()
        times.append((time.perf_counter() - begin) / 10)
    seconds = statistics.median(times[1:])
    line = {"who": "mica", "workload": "resnet50_train", "variant": "compiled-" + precision}
    line |= {"value": round(batch / seconds), "unit": "images/s", "batch": batch}
    line |= {"ms_per_step": round(1e3 * seconds, 3), "first_call_s": round(first, 1)}
    line |= {"peak_gib": round(mica.cuda.max_memory_allocated() / 2**30, 2)}
    print(json.dumps(line), flush=True)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--one":
        return measure(sys.argv[2], PRECISIONS[sys.argv[2]])
    for precision in sys.argv[1:] or PRECISIONS:
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, __file__, "--one", precision]
            subprocess.run(command, check=True, env={**os.environ, "MICA_CACHE": cache})
    return None


if __name__ == "__main__":
    main()
