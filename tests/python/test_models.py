"""Networks made in C++, and where their calls say that they are."""

import copy
import json
import os

import mica
import pytest
import torchvision_models
from mica import models, nn


def test_resnets_have_the_parameters_of_torchvisions(device):
    net = models.resnet18(num_classes=10).to(device)
    names = [name for name, _ in net.named_parameters()]
    assert names[0] == "conv1.weight" and "layer2.0.downsample.0.weight" in names
    assert sum(p.numel() for p in net.parameters()) == 11181642
    assert net(mica.rand(2, 3, 32, 32, device=device)).shape == (2, 10)
    assert models.resnet(blocks=(1, 1, 1, 1), in_channels=1, num_classes=3)(
        mica.rand(2, 1, 32, 32)
    ).shape == (2, 3)
    with pytest.raises(mica.Error, match="at least one block"):
        models.resnet(blocks=(1, 1, 0, 1))
    with pytest.raises(mica.Error, match="bottleneck can be dilated"):
        models.resnet(bottleneck=False, replace_stride_with_dilation=(False, True, True))


KEYS = json.loads(torchvision_models.GOLDEN.read_text())
# The others differ from these by numbers of layers alone, or have much to draw.
QUICK = ("resnet50", "mobilenet_v2", "mobilenet_v3_large", "densenet121", "efficientnet_b0")
HEAVY = pytest.mark.skipif(
    "MICA_TEST_HEAVY" not in os.environ, reason="heavy: set MICA_TEST_HEAVY to run it"
)


def check_keys(net, name):
    shapes = torchvision_models.shapes_of(net.state_dict())
    assert len(shapes) == KEYS[name]["keys"]
    assert torchvision_models.digest(shapes) == KEYS[name]["hash"]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else HEAVY) for n in KEYS if "lab" not in n]
)
def test_keys_and_shapes_are_torchvisions(name):
    check_keys(getattr(models, name)(), name)


def test_models_by_name(device):
    net = models.make("mobilenet_v2", num_classes=3, in_channels=1).eval().to(device)
    assert net(mica.rand(2, 1, 32, 32, device=device)).shape == (2, 3)
    with pytest.raises(mica.Error, match="lenet is for 10 classes"):
        models.make("lenet", num_classes=3)
    with pytest.raises(mica.Error, match="there is no model 'vgg'; there are mlp, simple_cnn"):
        models.make("vgg")


def test_segmentation_networks(device):
    net = models.deeplabv3_resnet50(**torchvision_models.options("deeplabv3_resnet50"))
    check_keys(net.eval().to(device), "deeplabv3_resnet50")
    with mica.no_grad():
        result = net(mica.rand(1, 3, 32, 48, device=device))
    assert list(result) == ["out", "aux"]
    assert result["out"].shape == result["aux"].shape == (1, 5, 32, 48)
    unet = models.unet(num_classes=4, in_channels=1, width=2, bilinear=True).to(device)
    assert unet(mica.rand(2, 1, 33, 20, device=device)).shape == (2, 4, 33, 20)


def test_layers_of_image_models(rng, device):
    x = mica.tensor(rng.standard_normal((2, 6, 5, 4)), device=device)
    norm = nn.LayerNorm2d(6, eps=1e-3).to(device, dtype="float64")
    mean, var = x.mean(1, keepdim=True), x.var(1, correction=0, keepdim=True)
    assert mica.allclose(norm(x), (x - mean) / (var + 1e-3).sqrt(), rtol=1e-12)
    assert nn.Permute((0, 2, 3, 1))(x).shape == (2, 5, 4, 6)
    squeeze = nn.SqueezeExcitation(6, 2, activation=nn.SiLU, scale_activation="hardsigmoid")
    squeeze.to(device, dtype="float64")
    assert [name for name, _ in squeeze.named_parameters()] == [
        *("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
    ]
    inside = squeeze.fc2(nn.functional.silu(squeeze.fc1(x.mean((2, 3), keepdim=True))))
    scale = nn.functional.hardsigmoid(inside)
    assert mica.allclose(squeeze(x), x * scale, rtol=1e-12)
    again = copy.deepcopy(squeeze)
    squeeze.fc1.weight.data.fill_(0)
    assert mica.allclose(again(x), x * scale, rtol=1e-12)
    with pytest.raises(TypeError, match="a word, a module, a class of modules or None, got int"):
        nn.SqueezeExcitation(6, 2, activation=3)
    with pytest.raises(mica.Error, match="mode must be one of 'batch', 'row', got 'col'"):
        nn.StochasticDepth(0.1, "col")


def test_errors_of_compiled_functions_name_module_and_line():
    net = nn.Sequential(nn.Identity(), nn.Embedding(4, 2))
    line = test_errors_of_compiled_functions_name_module_and_line.__code__.co_firstlineno + 5

    @mica.compile
    def look_up(indices):
        return net(indices)

    with pytest.raises(IndexError, match=rf"\(in 1 forward test_models.py:{line + 1}\)"):
        look_up(mica.tensor([1, 7]))
