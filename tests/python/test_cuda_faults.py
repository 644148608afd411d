"""A lost CUDA context is told by every call; processes on one GPU leave each other alone."""

import subprocess
import sys
from pathlib import Path

import mica
import pytest

NO_GPU = "no CUDA device: " + (mica.cuda.unavailable_reason() or "")
pytestmark = pytest.mark.skipif(not mica.cuda.is_available(), reason=NO_GPU)

# A tensor at an address that the device cannot read; then everything that could be called, each of
# which must say what happened.
LOSE = """
import sys
import mica

class Nowhere:
    __cuda_array_interface__ = {
        "shape": (1024,), "typestr": "<f4", "data": (0x1000, False), "version": 3, "strides": None
    }

kept = mica.ones(4, device="cuda")
step = mica.compile(lambda x: x * 2 + 1)
step(kept)
net = mica.nn.Linear(4, 4).to("cuda")
mica.cuda.synchronize()
try:
    (mica.from_dlpack(Nowhere()) + 1).cpu()
    sys.exit("nothing was raised")
except mica.DeviceError as error:
    assert "illegal memory access" in str(error), error
calls = {
    "add": lambda: kept + 1,
    "cpu": lambda: kept.cpu(),
    "new": lambda: mica.ones(3, device="cuda"),
    "compiled": lambda: step(kept),
    "layer": lambda: net(kept),
    "synchronize": mica.cuda.synchronize,
    "item": lambda: kept.sum().item(),
}
for name, call in calls.items():
    try:
        call()
    except mica.DeviceError as error:
        assert "the CUDA context was lost" in str(error), (name, error)
        assert "illegal memory access" in str(error), (name, error)
    else:
        sys.exit(name + " raised nothing")
assert mica.ones(3).sum().item() == 3
print("ended")
"""

TRAIN = """
import sys
sys.path.insert(0, sys.argv[1])
import mica
import numpy as np
from test_out_of_memory import make_step
rng = np.random.default_rng(1)
x = mica.tensor(rng.standard_normal((64, 1, 28, 28), dtype=np.float32), device="cuda")
y = mica.tensor(rng.integers(0, 10, 64), device="cuda")
mica.set_deterministic(True)
net, step = make_step("cuda", compiled=sys.argv[2] == "compiled")
losses = [step(x, y).item() for _ in range(int(sys.argv[3]))]
print(losses[-1].hex(), *(p.detach().cpu().double().sum().item().hex() for p in net.parameters()))
"""


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and not err, (process.returncode, out, err)
    return out


def test_a_lost_context_is_told_by_every_call_and_the_process_ends():
    assert finish(start(LOSE)) == "ended\n"


@pytest.mark.parametrize(("how", "steps"), [("compiled", "2000"), ("eager", "300")])
def test_two_processes_on_one_device(how, steps):
    arguments = [TRAIN, str(Path(__file__).parent), how, steps]
    alone = finish(start(*arguments))
    both = [start(*arguments), start(*arguments)]
    assert [finish(p) for p in both] == [alone, alone]
