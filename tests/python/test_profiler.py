"""mica.profiler: what a profile holds, and the files it writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mica
import pytest
from mica import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: mica.Tensor) -> mica.Tensor:
        return self.second(self.first(x).relu())


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["fields"], row, strict=True)) for row in table["rows"]]


def nested_slices(p: mica.profiler.profile, path: Path) -> list[dict[str, Any]]:
    """Of a trace, whose slices of each track lie in one another or side by side as Perfetto reads
    them: it cuts times off after nanoseconds."""
    p.export_chrome_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    assert all(e["pid"] > 0 and e.get("tid", 1) > 0 for e in events)  # 0 is the system's
    slices = [e for e in events if e["ph"] == "X"]
    tracks: dict[tuple[int, int], list[int]] = {}
    for e in sorted(slices, key=lambda e: (int(e["ts"] * 1000), -int(e["dur"] * 1000))):
        ends = tracks.setdefault((e["pid"], e["tid"]), [])
        begin = int(e["ts"] * 1000)
        end = begin + int(e["dur"] * 1000)
        while ends and ends[-1] <= begin:
            ends.pop()
        assert not ends or end <= ends[-1], f"{e} does not nest"
        ends.append(end)
    return slices


def record(steps: int = 3, **schedule: int) -> mica.profiler.profile:
    net = Net()
    optimizer = mica.optim.SGD(net.parameters(), lr=0.1)
    x = mica.randn(16, 4)
    with mica.profiler.profile(**schedule) as p:
        for _ in range(steps):
            with mica.profiler.record_function("mine"):
                optimizer.zero_grad()
                net(x).sum().backward()
                optimizer.step()
            p.step()
    return p


def test_ops_have_modules_phases_and_lines() -> None:
    recorded = record().json()
    kinds, scopes = recorded["kinds"], recorded["scopes"]
    seen = {
        (kinds[run[0]]["op"], scopes[run[1]]["module"], scopes[run[1]]["phase"])
        for run in recorded["runs"]["rows"]
    }
    assert ("linear", "first", "forward") in seen
    assert ("linear_wgrad", "second", "backward") in seen
    assert any(phase == "update" for _, _, phase in seen)
    assert any("test_profiler.py:" in scope["caller"] for scope in scopes)
    assert [row[:2] for row in recorded["ranges"]["rows"]] == [["mine", "range"]] * 3
    assert len(recorded["steps_ns"]) == 4


def test_schedule_leaves_steps_out() -> None:
    assert len(record(6, wait=1, warmup=1, active=1).json()["ranges"]["rows"]) == 2
    with pytest.raises(mica.Error, match="schedule"):
        mica.profiler.profile(wait=-1)


def test_table_and_files(tmp_path: Path) -> None:
    p = record()
    assert "linear" in p.table()
    assert "first" in p.table("module")
    with pytest.raises(mica.Error, match="by op, kernel, module, shape or gpu"):
        p.table("colour")
    slices = nested_slices(p, tmp_path / "trace.json")
    assert {e["cat"] for e in slices} == {"step", "phase", "module", "op", "range"}
    p.report(tmp_path / "profile.html")
    assert "Timeline" in (tmp_path / "profile.html").read_text()


def test_slices_nest_beside_ranges_over_half_a_pass(tmp_path: Path) -> None:
    net = Net()
    loader = mica.data.DataLoader(mica.randn(8, 4), batch_size=4)
    with mica.profiler.profile() as p:
        for x in loader:
            with mica.profiler.record_function("first layer"):
                h = net.first(x)
            net.second(h).sum().backward()
            p.step()
    slices = nested_slices(p, tmp_path / "trace.json")
    assert {"range", "data", "step", "phase", "module", "op"} <= {e["cat"] for e in slices}


def test_a_trace_loads_in_perfetto(tmp_path: Path) -> None:
    program = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if not program:
        pytest.skip("Perfetto's trace_processor_shell is not on PATH")
    path, query = tmp_path / "trace.json", tmp_path / "query.sql"
    slices = nested_slices(record(), path)
    query.write_text(
        "select (select count(*) from slice) as slices,"
        " (select count(*) from thread_track join thread using (utid) where thread.name = 'main')"
        " as tracks, (select count(*) from process where name = 'mica' and pid = 1) as processes,"
        " (select ifnull(sum(value), 0) from stats where severity = 'error') as errors;"
    )
    done = subprocess.run([program, "-q", query, path], capture_output=True, text=True, check=True)
    header, *found = [line.split(",") for line in done.stdout.split() if "," in line]
    assert [name.strip('"') for name in header] == ["slices", "tracks", "processes", "errors"]
    assert found == [[str(len(slices)), "1", "1", "0"]], done.stderr


@pytest.mark.parametrize("model", ["lenet", "gpt2"])
@pytest.mark.parametrize("compiled", [False, True])
def test_all_of_a_training_step_has_a_path(compiled: bool, model: str) -> None:
    if model == "lenet":
        net = mica.models.make("lenet")
        x, y = mica.randn(16, 1, 28, 28), mica.zeros(16, dtype=mica.int64)
    else:
        net = mica.models.gpt2(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
        x = y = mica.randint(0, 64, (4, 16))
    optimizer = mica.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step() -> mica.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x * 1).reshape(y.numel(), -1), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    run: Any = mica.compile(step) if compiled else step
    run()
    with mica.profiler.profile() as p:
        run()
    recorded = p.json()
    paths: dict[str, int] = {}
    for cost in rows(recorded["costs"]):
        path = recorded["scopes"][cost["scope"]]["module"]
        paths[path] = paths.get(path, 0) + cost["ns"]
    assert paths.get("", 0) <= 0.02 * sum(paths.values()), paths
    assert {"(loss)", "(update)"} <= paths.keys(), paths
    if compiled:
        return
    assert paths["(data)"] > 0
    peak = recorded["peak"]
    weights = sum(4 * parameter.numel() for parameter in net.parameters())
    assert peak["device"] == "cpu"
    assert weights <= peak["weights"] < 1.01 * weights
    assert weights <= peak["optimizer"] < 1.01 * weights
    assert peak["data"] >= 4 * x.numel()
    assert min(peak["activations"], peak["gradients"]) > 0


class Slow:
    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> mica.Tensor:
        time.sleep(0.002)
        return mica.ones(2)


def test_a_slow_loader_is_named() -> None:
    with mica.profiler.profile() as p:
        for batch in mica.data.DataLoader(Slow(), batch_size=4):
            batch + 1
    assert any("Waiting for data" in line for line in p.advice())


def test_the_loaders_workers_are_seen() -> None:
    with mica.profiler.profile() as p:
        for batch in mica.data.DataLoader(Slow(), batch_size=2, num_workers=2):
            batch + 1
    recorded = p.json()
    ranges = rows(recorded["ranges"])
    loads = [r for r in ranges if r["kind"] == "load"]
    waits = [r for r in ranges if r["kind"] == "data"]
    assert len(loads) == 4
    assert {r["thread"] for r in waits} == {0}
    assert 0 not in {r["thread"] for r in loads}, "workers are other threads"
    assert len(recorded["threads"]) > max(r["thread"] for r in loads)
    assert all(r["end_ns"] - r["begin_ns"] > 3e6 for r in loads), "two examples of 2 ms"


def test_memory_of_a_compiled_step_and_the_largest_batch() -> None:
    net = nn.Linear(256, 256)
    optimizer = mica.optim.Adam(net.parameters())

    @mica.compile
    def step(x: mica.Tensor) -> mica.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.gelu(net(x)).mean()
        loss.backward()
        optimizer.step()
        return loss

    assert step.memory is None
    step(mica.ones(64, 256))
    memory = step.memory
    weights = 4 * (256 * 256 + 256)
    assert weights <= memory["weights"] < 1.01 * weights
    assert memory["optimizer"] >= 2 * weights
    assert sum(bytes for *_, bytes in memory["holders"]) <= memory["arena"]
    assert memory["fullest"]["at"]

    net.to("null")
    plain = mica.optim.SGD(net.parameters(), lr=0.1)

    def on_nothing(batch: int) -> None:
        plain.zero_grad()
        nn.functional.gelu(net(mica.empty(batch, 256, device="null"))).mean().backward()
        plain.step()

    small, large = (mica.profiler.largest_batch(on_nothing, n << 20) for n in (16, 64))
    assert 0 < small < large < 64 << 20
    assert mica.profiler.largest_batch(on_nothing, 1000) == 0


def test_a_decorator_names_a_function_and_nothing_stays_on() -> None:
    @mica.profiler.record_function("named")
    def double(x: mica.Tensor) -> mica.Tensor:
        return x * 2

    with pytest.raises(RuntimeError, match="oops"), mica.profiler.profile() as p:
        double(mica.ones(2))
        raise RuntimeError("oops")
    assert [row[0] for row in p.json()["ranges"]["rows"]] == ["named"]
    double(mica.ones(2))
    with mica.profiler.profile() as again:
        pass
    assert again.json()["runs"]["rows"] == []


NO_GPU = "no CUDA device: " + (mica.cuda.unavailable_reason() or "")
on_a_gpu = pytest.mark.skipif(not mica.cuda.is_available(), reason=NO_GPU)


def train_on_gpu(compiled: bool, steps: int = 4, several: int = 1) -> dict[str, Any]:
    """Of a step that was compiled, and run, before the profile began."""
    net = Net().to("cuda")
    optimizer = mica.optim.Adam(net.parameters(), lr=0.1)
    x = mica.randn(512, 4, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        (net(x) ** 2).sum().backward()  # whose gradient needs what it is the gradient of
        optimizer.step()

    run: Any = mica.compile(step) if compiled else step
    run()
    if several > 1:
        run.repeat(several)
    with mica.profiler.profile(warmup=1) as p:
        for _ in range(steps + 1):
            if several > 1:
                run.repeat(several)
            else:
                run()
            p.step()
    recorded: dict[str, Any] = p.json()
    return recorded


def by_cupti(recorded: dict[str, Any]) -> dict[str, Any]:
    device: dict[str, Any] = recorded["device"]
    if device["source"] != "CUPTI":
        pytest.skip(device["source"])
    return device


@on_a_gpu
@pytest.mark.parametrize("several", [1, 3])
def test_a_cuda_graph_is_seen_inside(several: int) -> None:
    recorded = train_on_gpu(True, several=several)
    device = by_cupti(recorded)
    (times,) = device["times"]
    assert times["attributed"] > 0.98
    assert times["in_modules"] > 0.98
    done = rows(device["runs"])
    assert times["busy_and_gaps_ns"] == max(r["end_ns"] for r in done) - done[0]["begin_ns"]
    in_graph = [r for r in done if r["in_graph"]]
    launches = {r["id"] for r in rows(recorded["ranges"]) if r["kind"] == "launch"}
    assert in_graph
    assert all(r["sender"] in launches for r in in_graph)
    seen = {
        (recorded["scopes"][r["scope"]]["module"], recorded["scopes"][r["scope"]]["phase"])
        for r in in_graph
    }
    assert {("first", "forward"), ("second", "forward"), ("second", "backward")} <= seen
    assert any(phase == "update" for _, phase in seen)
    assert not any("record" in r["name"] for r in rows(recorded["ranges"])), "in the warm-up"
    # Every call of a step is counted once, however many kernels it has.
    calls = {
        recorded["kinds"][c["kind"]]["op"]: c["calls"]
        for c in rows(recorded["costs"])
        if recorded["scopes"][c["scope"]]["phase"] == "update"
    }
    assert calls
    assert all(n % (4 * several) == 0 for n in calls.values()), calls
    assert recorded["memory"][0]["weights"] > 0


@on_a_gpu
def test_ops_know_their_kernels() -> None:
    recorded = train_on_gpu(False)
    device = by_cupti(recorded)
    assert device["times"][0]["attributed"] > 0.98
    assert device["times"][0]["in_modules"] > 0.98
    runs = {r["id"]: r for r in rows(recorded["runs"])}
    done = rows(device["runs"])
    assert {r["sender"] for r in done if r["sender"] in runs}
    peak = recorded["peak"]
    assert peak["device"] == "cuda:0"
    assert min(peak[part] for part in ("weights", "optimizer", "data", "activations")) > 0
    for r in done:
        if r["sender"] in runs:
            assert r["begin_ns"] > runs[r["sender"]]["begin_ns"] - 1e5, "clocks agree"
            assert r["kind"] == runs[r["sender"]]["kind"]


@on_a_gpu
def test_tracks_nest_and_plans_run_unprofiled_afterwards(tmp_path: Path) -> None:
    net = Net().to("cuda")
    x = mica.randn(512, 4, device="cuda")
    run = mica.compile(lambda: net(x).sum())
    before = run().item()
    with mica.profiler.profile() as p:
        during = run().item()
    assert [run().item(), during] == [before, before]
    with mica.profiler.profile() as again:
        run()
    assert by_cupti(again.json())["times"][0]["attributed"] > 0.98
    slices = nested_slices(p, tmp_path / "trace.json")
    assert {"phase", "module", "kernel"} <= {e["cat"] for e in slices if e["pid"] > 1}
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"s", "f", "X", "C", "M"} >= {e["ph"] for e in events} >= {"s", "f", "X", "M"}


@on_a_gpu
def test_advice_names_what_makes_a_gpu_slow() -> None:
    def said(step: Any, times: int = 20) -> str:
        step(), mica.cuda.synchronize()
        with mica.profiler.profile() as p:
            for _ in range(times):
                step()
        return "\n".join(p.advice())

    x = mica.randn(512, 512, device="cuda")

    def loads() -> None:
        for batch in mica.data.DataLoader(Slow(), batch_size=4):
            batch.to("cuda") + 1

    def waits() -> None:
        total = x.sum()
        for _ in range(10):
            total.item()

    def copies() -> None:
        x.t().contiguous() + 1

    one_thread = mica.cuda.kernel(
        'extern "C" __global__ void one_thread(const float* x, float* y, int n) {'
        " for (int i = 0; i < n; ++i) y[i] = x[i]; }",
        "one_thread",
    )

    @mica.op(name="one_by_one")
    def one_by_one(x: Any) -> Any:
        return x

    @one_by_one.kernel("cuda", name="reference")
    def _(x: Any, y: Any) -> None:
        one_thread[1, 1](x, y, x.numel())

    assert "Waiting for data: cuda:0 is idle" in said(loads, 2)
    assert "The host waits for the device" in said(waits)
    assert "Copies to another layout" in said(copies)
    assert "one_by_one runs by its reference kernel" in said(lambda: one_by_one(x))


@on_a_gpu
@pytest.mark.parametrize("compiled", [False, True])
def test_without_cupti_events_time_each_op(compiled: bool) -> None:
    code = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_profiler import train_on_gpu
print(json.dumps(train_on_gpu({compiled})))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MICA_CUPTI": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    recorded = json.loads(done.stdout)
    device = recorded["device"]
    assert "MICA_CUPTI=0" in device["source"]
    assert device["times"][0]["attributed"] == 1
    ops = {recorded["kinds"][r["kind"]]["op"] for r in rows(device["runs"])}
    assert any("linear" in op for op in ops), ops
    assert all(r["end_ns"] >= r["begin_ns"] for r in rows(device["runs"]))
