"""mica.save and mica.load."""

import math
import os
from collections import OrderedDict
from pathlib import Path

import mica
import numpy as np
import pytest
from mica import nn, optim

GOLDEN = Path(os.environ.get("MICA_GOLDEN", Path(__file__).resolve().parents[1] / "golden"))


def test_round_trip(tmp_path, device):
    shared = mica.arange(3, device=device)
    tree = {
        "net": nn.Linear(3, 2).to(device).state_dict(),
        "epoch": 4,
        "lr": 0.5,
        "odd": [math.inf, None, True, "Grüße"],
        "pair": (shared, {"again": shared}),
        3: "a number as a key",
        "ordered": OrderedDict(b=1, a=2),
        "numpy": np.int64(7),
    }
    path = tmp_path / "tree.mica"
    mica.save(tree, path)
    got = mica.load(path, map_location=device)
    assert list(got) == list(tree) and list(got["ordered"]) == ["b", "a"]
    assert (got["epoch"], got["lr"], got["odd"], got[3]) == (4, 0.5, tree["odd"], tree[3])
    assert got["numpy"] == 7 and isinstance(got["pair"], tuple)
    assert got["pair"][0].tolist() == got["pair"][1]["again"].tolist() == [0, 1, 2]
    assert got["net"]["weight"].tolist() == tree["net"]["weight"].tolist()
    assert got["net"]["weight"].device == mica.device(device)
    assert mica.load(str(path))["pair"][0].device == mica.device("cpu")
    assert set(mica.io.load_safetensors(path).tensors) == {"net.weight", "net.bias", "pair.0"}


def test_a_run_goes_on(tmp_path, device):
    def make():
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).to(device)
        optimizer = optim.AdamW(net.parameters(), lr=0.1)
        return net, optimizer

    def train(net, optimizer, steps):
        x = mica.arange(12.0, device=device).reshape(4, 3)
        for _ in range(steps):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
        return net[0].weight.tolist()

    first = make()
    train(*first, 3)
    path = tmp_path / "run.mica"
    mica.save({"net": first[0].state_dict(), "optimizer": first[1].state_dict()}, path)
    state = mica.load(path, map_location=device)
    assert list(state["net"]) == list(first[0].state_dict())
    second = make()
    second[0].load_state_dict(state["net"])
    second[1].load_state_dict(state["optimizer"])
    assert train(*first, 3) == train(*second, 3)


def test_state_dict_is_in_order_of_registration():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.z = nn.Linear(2, 2)
            self.norm = nn.BatchNorm1d(2)
            self.a = nn.Parameter(mica.zeros(1))

    assert list(Net().state_dict()) == [
        "a",
        "z.weight",
        "z.bias",
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    ]


@pytest.mark.parametrize("name", ["torch_archive.pt", "torch_legacy.pt"])
def test_files_of_pytorch(name):
    tree = mica.load(GOLDEN / name)
    ramp = np.arange(12).reshape(3, 4)
    assert list(tree["model"]) == ["weight", "bias"]
    np.testing.assert_array_equal(tree["model"]["weight"].numpy(), ramp)
    np.testing.assert_array_equal(tree["transposed"].numpy(), ramp.T)
    np.testing.assert_array_equal(tree["view"].numpy(), ramp[1:, 2:])
    assert tree["bfloat16"].dtype == mica.bfloat16 and tree["empty"].shape == (0, 3)
    assert tree["flags"] == [True, False, None] and tree["pair"] == (1, -5)
    assert tree[7] == "a number as a key" and tree["size"] == (3, 4)
    net = nn.Linear(4, 3)
    net.load_state_dict(tree["model"])
    assert net.bias.tolist() == [0.5] * 3


def test_what_is_refused(tmp_path):
    path = tmp_path / "x"
    with pytest.raises(TypeError, match=r"save: obj\['a'\]\[1\] is a object"):
        mica.save({"a": [1, object()]}, path)
    assert not path.exists()
    with pytest.raises(mica.Unsupported, match=r"torch\.nn\.modules\.linear Linear"):
        mica.load(GOLDEN / "torch_module.pt")
    with pytest.raises(mica.Unsupported, match="would run code"):
        mica.load(GOLDEN / "torch_archive.pt", weights_only=False)
    path.write_bytes((GOLDEN / "torch_archive.pt").read_bytes()[:-30])
    with pytest.raises(mica.IoError, match="cut off"):
        mica.load(path)
    cycle = []
    cycle.append(cycle)
    with pytest.raises(mica.Error, match="levels"):
        mica.save(cycle, path)
