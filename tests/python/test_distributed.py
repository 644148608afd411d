"""Several processes on this machine, started by `mica launch`: what each scenario of
tests/distributed checks, programs in Python, the Trainer, and faults."""

import os
import re
import shutil
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import mica
import numpy as np
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
        "batch_norm,loader,buffers"
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
        assert "of step 3\n" in passed(launch(ranks, RANKS, "checkpoints", "load", place, sharding))
    if sharding == "0":
        return
    # One without a part is none.
    (place / "rank-00001-of-00003.safetensors").unlink()
    done = launch(2, RANKS, "checkpoints", "load", place, sharding)
    assert done.returncode != 0
    assert "rank-00001-of-00003.safetensors" in done.stderr


def numbers(out):
    """Of the kinds of data, each with the number of examples and of steps."""
    lines = [x for x in out.splitlines() if ": loss " in x]
    assert [x.split(":")[0] for x in lines] == ["numbers", "batches", "stream"]
    return [float(x) for line in lines for x in re.findall(r" (\d\S*)", line)]


def test_the_trainer_of_several_ranks_has_the_numbers_of_one(tmp_path):
    one = numbers(passed(run(RANKS, "trainer", tmp_path / "1", "compiled")))
    assert len(one) == 15
    for ranks, mode in ((2, "compiled"), (3, "eager")):
        out = passed(launch(ranks, RANKS, "trainer", tmp_path / str(ranks), mode))
        assert numbers(out) == pytest.approx(one, rel=1e-6)
    assert (tmp_path / "2" / "stream" / "report.html").exists()


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
    # Other dtypes, operations, roots, orders and messages.
    out = passed(launch(2, RANKS, "mismatches", MICA_DISTRIBUTED_DEBUG="1"))
    assert out.count(" passed") == 2


def images(folder, train, test):
    """Files as those of Fashion-MNIST, with noise."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, n in (("train", train), ("t10k", test)):
        pixels, labels = rng.integers(0, 256, (n, 28, 28)), rng.integers(0, 10, n)
        for kind, values in (("images-idx3", pixels), ("labels-idx1", labels)):
            head = struct.pack(f">{1 + values.ndim}i", 0x800 + values.ndim, *values.shape)
            path = folder / f"{name}-{kind}-ubyte"
            path.write_bytes(head + values.astype(np.uint8).tobytes())


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

        # Batch norms that see other batches begin each pass with rank 0's buffers.
        norm = mica.nn.BatchNorm1d(6)
        parallel = dist.DataParallel(norm)
        for _ in range(2):
            parallel(mica.tensor(data[0, part]))
        parallel.broadcast_buffers()
        mean = norm.running_mean
        assert np.array_equal(dist.all_reduce(mean, op="max").numpy(), mean.numpy())
        print("passed")
        """,
    )
    assert passed(run(*words)).count("passed") == 1  # the same program alone
    assert passed(launch(2, *words)).count("passed") == 2


@pytest.mark.parametrize("first", [0, 1])
def test_what_python_raises_is_told_to_the_others(tmp_path, first):
    words = program(
        tmp_path / "program.py",
        f"""
        import mica
        import mica.distributed as dist

        dist.init()
        dist.barrier()
        if dist.rank() == {first}:
            raise ValueError("no such file")
        dist.all_reduce(mica.ones(3))
        """,
    )
    done = launch(2, *words)
    assert done.returncode == 1
    name = rf"rank {first} \(host \S+, process \d+\)"
    assert re.search(rf"waited for all_reduce .*: {name}: ValueError: no such file", done.stderr)


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


def test_ranks_on_other_machines_get_the_environment(tmp_path):
    """Another machine's daemon begins with an empty one: so does the agent that stands for ssh."""
    agent = tmp_path / "agent"
    agent.write_text(f'#!/bin/sh\nshift\nexec env -i PATH="{os.environ["PATH"]}" sh -c "$*"\n')
    agent.chmod(0o755)
    words = program(
        tmp_path / "program.py",
        """
        import os

        names = ["MICA_RESTART", "MICA_DISTRIBUTED_TIMEOUT", "OMP_NUM_THREADS", "PYTHONPATH"]
        print([os.environ.get(name) for name in names], "HIDDEN" in os.environ)
        """,
    )
    done = run(
        *(MICA, "launch", "-n", 2, "--hosts", "localhost:1,elsewhere:1"),
        *("--logs", tmp_path / "logs"),
        *words,
        OMPI_MCA_plm_rsh_agent=str(agent),
        MICA_DISTRIBUTED_TIMEOUT="7",
        PYTHONPATH="/nowhere",
        HIDDEN="1",
    )
    passed(done)
    wanted = "['0', '7', '1', '/nowhere'] "
    logs = [(tmp_path / "logs" / f"rank-{rank}.log").read_text() for rank in (0, 1)]
    assert logs == [f"{wanted}True\n", f"{wanted}False\n"]


def test_a_launch_begins_again(tmp_path):
    words = program(
        tmp_path / "program.py",
        """
        import os
        import sys

        attempt, rank = os.environ["MICA_RESTART"], os.environ["OMPI_COMM_WORLD_RANK"]
        print(f"attempt {attempt}", flush=True)
        sys.exit(3 if attempt == "0" and rank == "1" else 0)
        """,
    )
    logs = tmp_path / "logs"
    done = launch(2, "--max-restarts", 2, "--logs", logs, *words)
    passed(done)
    assert "mica launch: status 3; restart 1 of 2" in done.stderr
    assert (logs / "rank-0.log").read_text().split("\n") == ["attempt 0", "attempt 1", ""]
    assert "attempt 0\nmica launch: rank 1" in (logs / "rank-1.log").read_text()


def test_mica_train_in_two_processes(tmp_path):
    images(tmp_path / "data", 300, 60)
    out = run(
        *(MICA, "train", "lenet", "--device", "cpu", "--epochs", 1, "--batch", 10, "--nproc", 2),
        *("--data", tmp_path / "data", "--out", tmp_path / "run", "--logs", tmp_path / "logs"),
        *("--profile", tmp_path / "steps.html"),
    )
    assert passed(out) == ""
    logs = [(tmp_path / "logs" / f"rank-{rank}.log").read_text() for rank in (0, 1)]
    assert "report: " in logs[0] and "report: " not in logs[1]
    for name in ("run/report.html", "steps.html", "steps-rank-1.html"):
        assert (tmp_path / name).read_text().startswith("<!"), name


def test_what_starts_no_ranks_that_can_talk_is_told_so():
    lonely = [sys.executable, "-c", "import mica.distributed as dist; dist.init()"]
    torchrun = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29511"}
    done = run(*lonely, **torchrun, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    assert "there is no backend nccl (launcher: torchrun): " in done.stderr
    assert "processes on the CPU are started by mpirun or `mica launch`" in done.stderr
    # Of srun, whose processes MPI may know.
    slurm = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
    done = run(*lonely, **slurm, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    assert "the environment says rank 1 of 2 (slurm), MPI rank 0 of 1: start" in done.stderr


@pytest.mark.skipif(not shutil.which("mpiexec.mpich"), reason="there is no MPICH")
def test_ranks_of_mpich(tmp_path):
    names = "collectives,groups,training"
    out = passed(run("mpiexec.mpich", "-n", 2, RANKS, names))
    assert out.count(" passed") == 6
    # And where its mpirun is the one that is found.
    mpirun = tmp_path / "mpirun"
    mpirun.write_text('#!/bin/sh\nexec mpiexec.mpich "$@"\n')
    mpirun.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    host = os.uname().nodename
    done = run(MICA, "launch", "-n", 2, "--hosts", f"{host}:2", RANKS, "groups", PATH=path)
    assert passed(done).count(" passed") == 2


def ranks_script(*words):
    script = Path(__file__).parents[1] / "torture" / "ranks.py"
    return passed(run(sys.executable, script, "--bin", BIN, *words))


def test_mica_train_after_kills():
    """Ranks are killed at random times, all go on from the checkpoint, with the same weights."""
    assert "1 kills" in ranks_script("--kills", 1, "--saves", 0)


def test_a_checkpoint_is_whole_after_kills():
    assert "2 kills while checkpoints are saved" in ranks_script("--kills", 0, "--saves", 2)
