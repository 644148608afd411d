"""Several processes on this machine, started by `mica launch`: what each scenario of
tests/distributed checks, programs in Python, the Trainer, and faults."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import mica
import pytest
from conftest import DEVICE

BIN = Path(mica.__file__).parents[2] / "bin"
MICA = BIN / "mica"
RANKS = BIN / "mica_test_ranks"

pytestmark = [
    pytest.mark.skipif(DEVICE != "cpu", reason="of CPU processes"),
    pytest.mark.skipif(not shutil.which("mpirun"), reason="there is no mpirun"),
    pytest.mark.skipif(not MICA.exists() or not RANKS.exists(), reason="not built here"),
]


def run(*words, **variables):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )


def launch(ranks, *words, **variables):
    return run(MICA, "launch", "-n", ranks, *words, **variables)


def passed(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("ranks", [2, 4])
def test_what_ranks_compute_together(ranks):
    names = (
        "collectives,gradients,compiled,groups,training,accumulation,unused,compression,sharding,"
        "batch_norm,loader"
    )
    out = passed(launch(ranks, RANKS, names))
    assert out.count(" passed") == ranks * len(names.split(","))


def test_large_messages_go_in_pieces():
    passed(launch(3, RANKS, "large"))


def test_who_takes_no_part_may_be_gone():
    assert passed(launch(3, RANKS, "letters")).count(" passed") == 3


@pytest.mark.parametrize("sharding", ["0", "2"])
def test_a_checkpoint_is_read_by_any_number_of_ranks(tmp_path, sharding):
    place = tmp_path / "step"
    passed(launch(3, RANKS, "checkpoints", "save", place, sharding))
    assert sorted(p.name for p in place.iterdir()) == [
        f"rank-0000{i}-of-00003.safetensors" for i in range(3)
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["step"], "nothing is left beside it"
    for ranks in (1, 2):
        passed(launch(ranks, RANKS, "checkpoints", "load", place, sharding))
    # One without a part is none.
    (place / "rank-00001-of-00003.safetensors").unlink()
    done = launch(2, RANKS, "checkpoints", "load", place, sharding)
    assert done.returncode != 0
    assert "rank-00001-of-00003.safetensors" in done.stderr


def numbers(out):
    found = re.search(r"loss (\S+) accuracy (\S+) examples (\d+)", out)
    return [float(x) for x in found.groups()]


def test_the_trainer_of_several_ranks_has_the_numbers_of_one(tmp_path):
    one = numbers(passed(run(RANKS, "trainer", tmp_path / "1", "compiled")))
    for ranks, mode in ((2, "compiled"), (3, "eager")):
        out = passed(launch(ranks, RANKS, "trainer", tmp_path / str(ranks), mode))
        several = numbers(out)
        assert several == pytest.approx(one, rel=1e-6)
    assert (tmp_path / "2" / "report.html").exists()


@pytest.mark.parametrize(
    ("scenario", "status", "words"),
    [
        ("die", 137, "ended without a word: it was killed, or crashed"),
        ("raise", 1, "the data are spoiled"),
        ("hang", 1, "whose last call was all_reduce sum f32[3] did not come"),
    ],
)
def test_a_rank_that_is_lost_is_named(scenario, status, words):
    begin = time.monotonic()
    done = launch(3, RANKS, scenario, MICA_DISTRIBUTED_TIMEOUT="3")
    assert time.monotonic() - begin < 30
    assert done.returncode == status, done.stderr
    for rank in (0, 1):
        line = next(x for x in done.stderr.splitlines() if x.startswith(f"rank {rank}: "))
        assert "waited for all_reduce sum f32[7] (call 2 of group 0): " in line
        if rank == 1 and "rank 0, which holds the store, ended" in line:
            continue  # rank 0 noticed it first, and said so
        assert re.search(r"rank 2 \(host \S+, process \d+\)", line)
        assert words in line


def test_ranks_that_make_different_calls_are_told_so():
    done = launch(3, RANKS, "mismatch", MICA_DISTRIBUTED_DEBUG="1")
    assert done.returncode == 1
    expected = (
        "the ranks of group 0 make different calls: rank 0: call 2: all_reduce sum f32[7]; "
        "rank 1: call 2: all_reduce sum f32[7]; rank 2: call 2: all_reduce sum f32[8]"
    )
    assert done.stderr.count(expected) >= 1


def program(path, text):
    path.write_text(textwrap.dedent(text))
    return (sys.executable, path)


def test_a_program_in_python(tmp_path):
    words = program(
        tmp_path / "program.py",
        """
        import mica
        import mica.distributed as dist
        import mica.nn.functional as F
        import numpy as np

        dist.init()
        rank, n = dist.rank(), dist.world_size()
        assert dist.backend() == ("mpi" if n > 1 else "self")
        x = mica.tensor(np.arange(4, dtype="float32") + rank)
        assert np.array_equal(
            dist.all_reduce(x).numpy(), sum(np.arange(4, dtype="float32") + r for r in range(n))
        )
        assert dist.all_gather(x).shape == (4 * n,)
        evens = dist.new_group(list(range(0, n, 2)))
        assert dist.group_size(evens) == (n + 1) // 2
        dist.barrier()

        # The whole step, compiled, equals one process on the joined batch.
        def make():
            mica.manual_seed(3)
            return mica.nn.Sequential(
                mica.nn.Linear(6, 16), mica.nn.ReLU(), mica.nn.Linear(16, 3)
            )

        rng = np.random.default_rng(0)
        data = rng.normal(size=(10, 8 * n, 6)).astype("float32")
        labels = rng.integers(0, 3, size=(10, 8 * n))
        for sharding in ("none", "gradients"):
            net = make()
            parallel = dist.DataParallel(net, sharding=sharding)
            optimizer = mica.optim.Adam(parallel.parameters(), lr=0.01)

            @mica.compile
            def step(x, y):
                parallel.zero_grad()
                loss = F.cross_entropy(parallel(x), y)
                loss.backward()
                parallel.step(optimizer)
                return loss

            part = slice(8 * rank, 8 * rank + 8)
            for i in range(10):
                step(mica.tensor(data[i, part]), mica.tensor(labels[i, part]))
            alone = make()
            its = mica.optim.Adam(alone.parameters(), lr=0.01)
            for i in range(10):
                its.zero_grad()
                F.cross_entropy(alone(mica.tensor(data[i])), mica.tensor(labels[i])).backward()
                its.step()
            for name, value in alone.state_dict().items():
                got = net.state_dict()[name].numpy()
                assert np.allclose(got, value.numpy(), atol=1e-5), name
        with parallel.no_sync():
            pass
        print("passed")
        """,
    )
    assert passed(run(*words)).count("passed") == 1  # the same program alone
    assert passed(launch(2, *words)).count("passed") == 2


def test_what_python_raises_is_told_to_the_others(tmp_path):
    words = program(
        tmp_path / "program.py",
        """
        import mica
        import mica.distributed as dist

        dist.init()
        dist.barrier()
        if dist.rank() == 1:
            raise ValueError("no such file")
        dist.all_reduce(mica.ones(3))
        """,
    )
    done = launch(2, *words)
    assert done.returncode == 1
    assert re.search(r"rank 1 \(host \S+, process \d+\): ValueError: no such file", done.stderr)


def test_a_forked_child_speaks_for_nobody(tmp_path):
    words = program(
        tmp_path / "program.py",
        """
        import os
        import sys
        import time
        import mica
        import mica.distributed as dist

        dist.init()
        dist.barrier()
        if dist.rank() == 1:
            child = os.fork()
            if child == 0:
                sys.exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        time.sleep(1)  # what it said would be here by then
        for _ in range(3):
            dist.all_reduce(mica.ones(3))
        assert dist.failure() == ""
        print("passed")
        """,
    )
    assert passed(launch(2, *words)).count("passed") == 2


def test_mica_train_in_two_processes_and_after_kills():
    """Ranks are killed at random times, all go on from the checkpoint, with the same weights."""
    try:
        mica.data.fashion_mnist(train=True)
    except mica.IoError as e:
        pytest.skip(str(e))
    script = Path(__file__).parents[1] / "torture" / "ranks.py"
    done = run(sys.executable, script, "--kills", 1, "--mica", MICA)
    assert "1 kills" in passed(done)
