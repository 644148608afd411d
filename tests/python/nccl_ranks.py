"""What test_distributed_nccl.py starts once per rank: `python nccl_ranks.py SCENARIO`.

Ranks may share one GPU. Each scenario checks what it knows.
"""

import os
import signal
import sys
import time

import mica
import mica.distributed as dist
import mica.nn.functional as F
import numpy as np

STEPS = 50
PART = 8  # examples of one rank in a step
KINDS = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
EPS = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52}


def on_gpu(array):
    return mica.tensor(array).to("cuda")


def host(tensor):
    return tensor.cpu().numpy()


def drawn(shape, seed):
    return np.random.default_rng(seed).normal(size=shape)


def of_rank(shape, rank, kind):
    """What a rank has, rounded to its dtype, as doubles or integers."""
    values = drawn(shape, 100 + rank)
    if kind in EPS:
        return mica.tensor(values).to(kind).to("float64").numpy()
    return np.abs(np.floor(3 * values)).astype("int64")


def given(shape, rank, kind):
    values = of_rank(shape, rank, kind)
    return on_gpu(values).to(kind)


def same(got, wanted, what, kind=None):
    """Bits of what is only moved or counted; sums within the rounding of each addition."""
    got = got.to("float64" if kind in EPS else "int64").cpu().numpy()
    if kind in EPS and what.startswith(("all_reduce sum", "all_reduce avg", "reduce_scatter")):
        scale = dist.world_size() * EPS[kind]
        error = np.abs(got - wanted)
        limit = scale * (np.abs(wanted) + sum(np.abs(w) for w in same.parts))
        assert (error <= limit).all(), f"{what} {kind}: off by {error.max()}"
    else:
        assert np.array_equal(got, wanted), (
            f"{what} {kind}: {got.ravel()[:8]}, {wanted.ravel()[:8]}"
        )


def collectives():
    n, rank = dist.world_size(), dist.rank()
    for kind in KINDS:
        for size in (0, 1, 5, 1000, 100_003):
            same.parts = [of_rank((size,), r, kind) for r in range(n)]
            x = given((size,), rank, kind)
            total = sum(same.parts)
            same(dist.all_reduce(x), total, "all_reduce sum", kind)
            if kind in EPS:
                same(dist.all_reduce(x, op="avg"), total / n, "all_reduce avg", kind)
            same(dist.all_reduce(x, op="max"), np.max(same.parts, axis=0), "all_reduce max", kind)
            same(dist.all_reduce(x, op="min"), np.min(same.parts, axis=0), "all_reduce min", kind)
        parts = [of_rank((3, 5), r, kind) for r in range(n)]
        got = dist.all_gather(given((3, 5), rank, kind))
        same(got, np.concatenate(parts), "all_gather", kind)
        same.parts = [of_rank((2 * n, 7), r, kind)[2 * rank : 2 * rank + 2] for r in range(n)]
        got = dist.reduce_scatter(given((2 * n, 7), rank, kind))
        same(got, sum(same.parts), "reduce_scatter", kind)
        for root in range(n):
            got = dist.broadcast(given((9,), rank, kind), root)
            same(got, of_rank((9,), root, kind), "broadcast", kind)
        parts = [of_rank((2 * n, 3), r, kind)[2 * rank : 2 * rank + 2] for r in range(n)]
        got = dist.all_to_all(given((2 * n, 3), rank, kind))
        same(got, np.concatenate(parts), "all_to_all", kind)
        if rank == 0:
            for r in range(1, n):
                dist.send(given((11,), r, kind), r)
        else:
            got = dist.recv(mica.zeros(11, dtype=kind, device="cuda"), 0)
            same(got, of_rank((11,), rank, kind), "recv", kind)
    same.parts = [of_rank((4, 6), r, "float32").T for r in range(n)]
    got = dist.all_reduce(given((4, 6), rank, "float32").permute(1, 0))
    same(got, sum(same.parts), "all_reduce sum, transposed", "float32")
    got = dist.all_reduce(given((5,), rank, "float32"), op="product")
    wanted = np.prod([of_rank((5,), r, "float32") for r in range(n)], axis=0)
    assert np.allclose(host(got), wanted, rtol=1e-6), "all_reduce product"
    dist.barrier(device="cuda")
    print("moved and reduced: passed", flush=True)

    # Gradients are collectives too.
    x = given((4,), rank, "float64")
    x.requires_grad = True
    (dist.all_reduce(x) * (rank + 1.0)).sum().backward()
    assert np.allclose(host(x.grad), n * (n + 1) / 2), "gradient of all_reduce"
    x = given((2 * n,), rank, "float64")
    x.requires_grad = True
    (dist.all_to_all(x) * (rank + 1.0)).sum().backward()
    assert np.allclose(host(x.grad), np.repeat(np.arange(1.0, n + 1), 2)), "of all_to_all"
    print("differentiated: passed", flush=True)

    # Groups of some, and one in another order.
    evens = dist.new_group(list(range(0, n, 2)))
    back = dist.new_group(list(range(n - 1, -1, -1)))
    got = dist.broadcast(given((4,), rank, "float32"), 0, group=back)
    same(got, of_rank((4,), n - 1, "float32"), "broadcast in a group", "float32")
    if rank % 2 == 0:
        same.parts = [of_rank((6,), r, "float32") for r in range(0, n, 2)]
        got = dist.all_reduce(given((6,), rank, "float32"), group=evens)
        same(got, sum(same.parts), "all_reduce sum in a group", "float32")
    print("in groups: passed", flush=True)

    @mica.compile
    def step(x):
        a = dist.all_reduce(x * 2.0)
        dist.all_reduce(mica.exp(x))  # nobody looks at it, and yet all ranks take part
        b = dist.broadcast(a + x, 1)
        return a, b, dist.all_gather(b)

    for i in range(5):
        parts = [drawn((40,), 10 * i + r).astype("float32") for r in range(n)]
        a, b, c = step(on_gpu(parts[rank]))
        wanted = sum(2 * p.astype("float64") for p in parts)
        assert np.allclose(host(a), wanted, atol=1e-5), f"compiled all_reduce of run {i}"
        assert np.allclose(host(b), wanted + parts[1], atol=1e-5), f"broadcast of run {i}"
        assert np.array_equal(host(c), np.tile(host(b), n)), f"all_gather of run {i}"
    assert step.is_one_launch, step.kernels
    found = sum(": nccl" in kernel for kernel in step.kernels)
    assert found == 4, step.kernels
    print("compiled: passed", flush=True)


def make_net(seed, norm=False):
    mica.manual_seed(seed)
    layers = [mica.nn.Linear(12, 33), mica.nn.Tanh(), mica.nn.Linear(33, 17), mica.nn.ReLU()]
    if norm:
        layers.insert(1, mica.nn.BatchNorm1d(33))
    return mica.nn.Sequential(*layers, mica.nn.Linear(17, 5)).to("cuda")


def batches():
    n = dist.world_size()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(STEPS, PART * n, 12)).astype("float32")
    y = rng.integers(0, 5, size=(STEPS, PART * n))
    return x, y


def optimizers(parameters, kind):
    if kind == "adam":
        return mica.optim.Adam(parameters, lr=0.003)
    return mica.optim.SGD(parameters, lr=0.05, momentum=0.9)


def alone(kind, parts, norm=False):
    """One process: on the joined batch, or part by part in the ranks' order, divided then."""
    x, y = batches()
    net = make_net(1, norm)
    optimizer = optimizers(net.parameters(), kind)
    losses = []
    for i in range(STEPS):
        net.zero_grad()
        loss = 0.0
        for p in range(parts):
            part = slice(p * x.shape[1] // parts, (p + 1) * x.shape[1] // parts)
            own = F.cross_entropy(net(on_gpu(x[i, part])), on_gpu(y[i, part]))
            own.backward()
            loss += own.item() / parts
        if parts > 1:
            for p in net.parameters():
                p.grad = p.grad / float(parts)
        optimizer.step()
        losses.append(loss)
    return losses, {k: host(v) for k, v in net.state_dict().items()}


def together(kind, compiles, norm=False, **options):
    x, y = batches()
    net = make_net(1 if norm else dist.rank() + 1, norm)  # rank 0's weights for all
    if norm:
        net = dist.convert_sync_batch_norm(net)
    parallel = dist.DataParallel(net, bucket_bytes=2000, **options)
    optimizer = optimizers(parallel.parameters(), kind)

    def step(a, b):
        parallel.zero_grad()
        loss = F.cross_entropy(parallel(a), b)
        loss.backward()
        parallel.step(optimizer)
        return dist.all_reduce(loss.detach(), op="avg")

    if compiles:
        step = mica.compile(step)
    part = slice(PART * dist.rank(), PART * (dist.rank() + 1))
    losses = [step(on_gpu(x[i, part]), on_gpu(y[i, part])).item() for i in range(STEPS)]
    if compiles:
        assert step.is_one_launch, step.kernels
        assert step.captures == 1, f"captured {step.captures} times"
        first = next(i for i, k in enumerate(step.kernels) if k.startswith(("all_red", "reduce_s")))
        last = max(i for i, k in enumerate(step.kernels) if k.startswith(("matmul", "linear_")))
        assert first < last, "the first bucket goes out after the last product"
    return losses, {k: host(v) for k, v in net.state_dict().items()}


def compare(got, wanted, what, tolerance):
    """Of weights; losses are read as numbers of other widths."""
    worst = max(abs(a - b) for a, b in zip(got[0], wanted[0], strict=True))
    assert worst <= max(tolerance, 1e-6), f"{what}: losses differ by {worst}"
    worst = max(
        float(np.abs(got[1][name].astype("float64") - value).max())
        for name, value in wanted[1].items()
    )
    assert worst <= tolerance, f"{what}: weights differ by {worst}"
    if dist.rank() == 0:
        print(f"{what}: weights differ by {worst:.1e}: passed", flush=True)


def training():
    mica.set_deterministic(True)
    joined = alone("sgd", 1)
    parts = alone("sgd", dist.world_size())
    # Two addends have one order: the same bits as one process that adds up the ranks' gradients.
    exact = 0.0 if dist.world_size() == 2 else 1e-5
    for compiles in (False, True):
        words = "compiled" if compiles else "eager"
        got = together("sgd", compiles)
        compare(got, joined, f"SGD {words}, joined batch", 2e-5)
        compare(got, parts, f"SGD {words}, parts in order", 2e-5 if compiles else exact)
        for sharding in ("states", "gradients"):
            got = together("sgd", compiles, sharding=sharding)
            compare(got, joined, f"SGD {words}, sharded {sharding}", 2e-5)
    compare(together("adam", True), alone("adam", 1), "Adam compiled", 1e-3)
    normed = alone("sgd", 1, norm=True)
    compare(together("sgd", False, norm=True), normed, "SyncBatchNorm eager", 1e-3)
    compare(together("sgd", True, norm=True), normed, "SyncBatchNorm compiled", 1e-3)
    compare(together("sgd", True, bf16=True), joined, "bf16 compression", 5e-2)

    # Accumulation: two parts a rank, of which the first is not sent.
    x, y = batches()
    net = make_net(1)
    parallel = dist.DataParallel(net)
    own = slice(PART * dist.rank(), PART * (dist.rank() + 1))
    with parallel.no_sync():
        F.cross_entropy(net(on_gpu(x[0, own])), on_gpu(y[0, own])).backward()
    F.cross_entropy(net(on_gpu(x[1, own])), on_gpu(y[1, own])).backward()
    whole = make_net(1)
    for i in (0, 1):
        F.cross_entropy(whole(on_gpu(x[i])), on_gpu(y[i])).backward()
    for a, b in zip(net.parameters(), whole.parameters(), strict=True):
        assert np.allclose(host(a.grad), host(b.grad), atol=1e-6), "accumulated gradients"
    print("accumulation: passed", flush=True)


def lost(how):
    """The last rank does something else than the others, which wait for it: eagerly (call 2), or in
    the replay of a compiled step."""
    compiled = how.startswith("compiled-")
    how = how.removeprefix("compiled-")
    step = mica.compile(lambda x: dist.all_reduce(x) + 1.0)
    last = dist.rank() == dist.world_size() - 1
    x = mica.ones(3, device="cuda")
    for _ in range(3):
        dist.all_reduce(x).cpu().numpy()
        if compiled:
            step(x).cpu().numpy()
    if last and how == "hang":
        time.sleep(12)
    if last and how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if last and how == "raise":
        raise ValueError("the data are spoiled")
    begin = time.monotonic()
    size = 8 if last and how == "mismatch" else 7
    try:
        if compiled:
            for _ in range(50):
                step(x)
            value = step(x).cpu().numpy()
        else:
            value = dist.all_reduce(mica.ones(size, device="cuda")).cpu().numpy()
        print(f"nobody noticed: {value}", flush=True)
    except Exception:
        print(f"noticed after {time.monotonic() - begin:.1f} s", flush=True)
        raise


def by_itself():
    """Without launcher and without NCCL results are copies."""
    x = mica.arange(6.0, device="cuda")
    y = mica.compile(lambda x: dist.all_gather(dist.all_reduce(x * 2.0, op="avg")))(x)
    dist.barrier(device="cuda")
    assert np.array_equal(host(y), 2 * host(x))


def launched():
    """By torchrun, mpirun or `mica launch`: tensors of the CPU go by MPI where it is there."""
    wanted = sum(range(dist.world_size()))
    assert dist.all_reduce(mica.full((3,), dist.rank(), device="cuda")).cpu().numpy()[0] == wanted
    if dist.backend() == "mpi":
        assert dist.all_reduce(mica.full((3,), dist.rank())).cpu().numpy()[0] == wanted
    print(f"by {dist.backend()}", flush=True)


if __name__ == "__main__":
    # Launchers give all ranks one environment; on one GPU each is to be on a host of its own.
    os.environ.setdefault("NCCL_HOSTID", f"process-{os.getpid()}")
    dist.init({"alone": "self", "launched": ""}.get(sys.argv[1], "nccl"))
    names = {"begin": lambda: dist.barrier(device="cuda"), "alone": by_itself}
    names["launched"] = launched
    names |= {"collectives": collectives, "training": training}
    if sys.argv[1] in names:
        names[sys.argv[1]]()
    else:
        lost(sys.argv[1])
    print(f"rank {dist.rank()} of {dist.world_size()}: {sys.argv[1]} passed", flush=True)
