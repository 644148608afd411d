"""Ranks that share one GPU by NCCL: what nccl_ranks.py and the scenarios of tests/distributed check
there, and ranks that are lost."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mica
import pytest
from conftest import DEVICE
from one_gpu import Ranks

HERE = Path(__file__).parent
RANKS = Path(mica.__file__).parents[2] / "bin" / "mica_test_ranks"


pytestmark = pytest.mark.skipif(not DEVICE.startswith("cuda"), reason="of CUDA processes")


@pytest.fixture(autouse=True, scope="module")
def _nccl():
    done = ranks(1, "begin", 30)
    if done.statuses != [0]:
        pytest.skip(done.text()[-300:])


def ranks(n, scenario, timeout=60, **variables):
    return Ranks(n, [sys.executable, HERE / "nccl_ranks.py", scenario], timeout, **variables)


@pytest.mark.parametrize("n", [2, 4])
def test_collectives_against_numpy(n):
    done = ranks(n, "collectives")
    assert done.statuses == [0] * n, done.text()


def test_training_equals_one_process_on_the_joined_batch():
    done = ranks(2, "training")
    assert done.statuses == [0, 0], done.text()


def test_a_program_alone_needs_no_other():
    done = Ranks(1, [sys.executable, HERE / "nccl_ranks.py", "alone"], 60)
    assert done.statuses == [0], done.text()


def test_launchers():
    words = [sys.executable, HERE / "nccl_ranks.py", "launched"]
    done = Ranks(2, words, 60)
    assert done.statuses == [0, 0] and done.text().count("by nccl") == 2, done.text()


@pytest.mark.skipif(not shutil.which("mpirun"), reason="there is no mpirun")
@pytest.mark.skipif(not RANKS.exists(), reason="not built here")
def test_mpi_and_nccl_side_by_side():
    words = [RANKS.parent / "mica", "launch", "-n", 2]
    words += [sys.executable, HERE / "nccl_ranks.py", "launched"]
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "NCCL_SOCKET_IFNAME": "lo"},
    )
    assert done.returncode == 0 and done.stdout.count("by mpi") == 2, done.stdout + done.stderr


@pytest.mark.skipif(not RANKS.exists(), reason="not built here")
def test_the_scenarios_of_cpu_ranks():
    names = (
        "collectives,gradients,compiled,groups,large,training,accumulation,unused,compression,"
        "sharding,batch_norm"
    )
    done = Ranks(2, [RANKS, names], 60, MICA_TEST_DEVICE="cuda")
    assert done.statuses == [0, 0], done.text()


@pytest.mark.parametrize("compiled", ["", "compiled-"])
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("die", "ended without a word: it was killed, or crashed"),
        ("raise", "the data are spoiled"),
        ("hang", r"whose last call was all_reduce sum f32\[3\] did not come"),
    ],
)
def test_a_rank_that_is_lost_is_named(how, words, compiled):
    done = ranks(2, compiled + how, 30, MICA_DISTRIBUTED_TIMEOUT="4")
    # The one that sleeps does so for longer than the others wait.
    assert done.ended[0] is not None and done.statuses[0] == 1, done.text()
    last = "\n".join(done.lines[0])
    assert re.search(r"waited for all_reduce sum f32\[\d\] \(call \d+ of group 0\): ", last), last
    assert re.search(r"rank 1 \(host \S+, process \d+\)", last), last
    assert re.search(words, last), last
    noticed = float(re.search(r"noticed after (\S+) s", last).group(1))
    assert noticed < 15


def test_ranks_that_make_different_calls_are_told_so():
    done = ranks(2, "mismatch", 30, MICA_DISTRIBUTED_TIMEOUT="4", MICA_DISTRIBUTED_DEBUG="1")
    assert 0 not in done.statuses, done.text()
    assert re.search(
        r"the ranks of group 0 make different calls: rank 0: call \d+: all_reduce sum f32\[7\]; "
        r"rank 1: call \d+: all_reduce sum f32\[8\]",
        done.text(),
    ), done.text()
