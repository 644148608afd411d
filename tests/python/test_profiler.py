"""mica.profiler: what a profile holds, and the files it writes."""

from __future__ import annotations

import json
import time
from pathlib import Path

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
    with pytest.raises(mica.Error, match="by op, kernel, module or shape"):
        p.table("colour")
    p.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    open_slices: list[tuple[float, float]] = []
    for e in sorted(
        (e for e in events if e["ph"] == "X" and e["cat"] in {"step", "phase", "module", "op"}),
        key=lambda e: (e["tid"], e["ts"], -e["dur"]),
    ):
        while open_slices and open_slices[-1][1] <= e["ts"] + 1e-6:
            open_slices.pop()
        assert not open_slices or e["ts"] + e["dur"] <= open_slices[-1][1] + 1e-3, "slices nest"
        open_slices.append((e["ts"], e["ts"] + e["dur"]))
    p.report(tmp_path / "profile.html")
    assert "Timeline" in (tmp_path / "profile.html").read_text()


def test_a_slow_loader_is_named() -> None:
    class Slow:
        def __len__(self) -> int:
            return 8

        def __getitem__(self, i: int) -> mica.Tensor:
            time.sleep(0.002)
            return mica.ones(2)

    with mica.profiler.profile() as p:
        for batch in mica.data.DataLoader(Slow(), batch_size=4):
            batch + 1
    assert any("Waiting for data" in line for line in p.advice())


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
