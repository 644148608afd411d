"""Networks made in C++, and where their calls say that they are."""

import mica
import pytest
from mica import models, nn


def test_resnets_have_the_parameters_of_torchvisions(device):
    net = models.resnet18(classes=10).to(device)
    names = [name for name, _ in net.named_parameters()]
    assert names[0] == "conv1.weight" and "layer2.0.downsample.0.weight" in names
    assert sum(p.numel() for p in net.parameters()) == 11181642
    assert net(mica.rand(2, 3, 32, 32, device=device)).shape == (2, 10)
    assert models.resnet(blocks=(1, 1, 1, 1), in_channels=1, classes=3)(
        mica.rand(2, 1, 32, 32)
    ).shape == (2, 3)
    with pytest.raises(mica.Error, match="at least one block"):
        models.resnet(blocks=(1, 1, 0, 1))


def test_errors_of_compiled_functions_name_module_and_line():
    net = nn.Sequential(nn.Identity(), nn.Embedding(4, 2))
    line = test_errors_of_compiled_functions_name_module_and_line.__code__.co_firstlineno + 5

    @mica.compile
    def look_up(indices):
        return net(indices)

    with pytest.raises(IndexError, match=rf"\(in 1 forward test_models.py:{line + 1}\)"):
        look_up(mica.tensor([1, 7]))
