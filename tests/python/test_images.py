"""Images to tensors: crops, augmentation, mixing, and classes of pixels that move with them."""

import mica
import numpy as np
import pytest
from mica import data, models, optim, train

N, SIDE = 12, 24


def blocks(rng, n=N, side=SIDE):
    """Classes of pixels 1 … 4 in patches, and images whose value tells the class."""
    coarse = rng.integers(1, 5, (n, side // 6, side // 6))
    classes = coarse.repeat(6, 1).repeat(6, 2)
    return (classes[:, None] / 5).astype(np.float32), classes.astype(np.int64)


MOVING = {
    "flip": lambda: data.flip(),
    "vertical_flip": lambda: data.vertical_flip(),
    "pad_crop": lambda: data.pad_crop(5),
    "rotate": lambda: data.rotate(60),
    "random_resized_crop": lambda: data.random_resized_crop((30, 20), least=0.3),
    "resize": lambda: data.resize((12, 36)),
    "rand_augment": lambda: data.rand_augment(2, 15),
}


@pytest.mark.parametrize("name", MOVING)
def test_classes_of_pixels_move_with_their_image(rng, device, name):
    images, classes = blocks(rng)
    transform = MOVING[name]()
    drawn = transform.draw(range(N), seed=3)
    drawn = drawn if drawn is None else drawn.to(device)
    x = transform.apply(mica.tensor(images, device=device), drawn).cpu().numpy()[:, 0]
    mask = transform.apply_mask(mica.tensor(classes, device=device), drawn).cpu().numpy()
    assert mask.shape == x.shape and mask.dtype == np.int64
    assert set(np.unique(mask)) <= {-100, 1, 2, 3, 4}
    if name == "rand_augment":  # colours change, so only the outside can be compared
        assert (x[mask == -100] < 0.2).mean() > 0.5
        return
    told = np.where(mask == -100, 0, mask)
    right = np.abs(5 * x - told) < 1e-3
    exact = name in ("flip", "vertical_flip", "pad_crop")
    # Between two patches an image has values of both.
    assert right.all() if exact else right.mean() > 0.6
    assert not np.array_equal(mask, classes)


def test_colours_leave_the_classes_alone(rng):
    _, classes = blocks(rng)
    jitter = data.color_jitter(brightness=0.5)
    mask = mica.tensor(classes)
    assert np.array_equal(jitter.apply_mask(mask, jitter.draw(range(N))).numpy(), classes)
    with pytest.raises(mica.ShapeError, match="expected the classes of pixels i64"):
        data.flip().apply_mask(mica.tensor(classes.astype(np.int32)))


@pytest.mark.parametrize("resident", [False, True])
def test_loaders_move_masks(rng, device, resident):
    images, classes = blocks(rng)
    loader = data.DataLoader(
        ((255 * images).round().astype(np.uint8), classes),
        5,
        shuffle=1,
        device=device,
        augment=[data.flip(), data.pad_crop(2)],
        masks=True,
        resident=resident,
    )
    seen = 0
    for x, mask in loader:
        told = np.where(mask.cpu().numpy() == -100, 0, mask.cpu().numpy())
        assert np.abs(5 * x.cpu().numpy()[:, 0] - told).max() < 1e-2
        seen += len(mask)
    assert seen == N


def test_random_resized_crop_is_a_part_of_the_image(device):
    ramp = np.linspace(0, 1, 64, dtype=np.float32)
    x = np.broadcast_to(ramp, (200, 1, 32, 64)).copy()
    crop = data.random_resized_crop((16, 16), least=0.25, most=0.5, ratio=1.5)
    y = crop(mica.tensor(x, device=device), list(range(200)), seed=2).cpu().numpy()
    assert y.shape == (200, 1, 16, 16) and y.min() >= 0 and y.max() <= 1
    wide = (y[:, 0, 0, -1] - y[:, 0, 0, 0]) * 64 / 15 * 16 / 63  # of the image, about
    assert wide.min() > 0.2 and wide.max() <= 1.02 and wide.std() > 0.02
    # The area's root over the image's, times the ratio's root: √(½ · ½ / 1.5) … √(½ · ½ · 1.5)
    assert np.sqrt(0.25 * 0.5 / 1.5) * 0.9 < wide.min()
    assert wide.max() < np.sqrt(0.5 * 0.5 * 1.5) * 1.1
    whole = data.random_resized_crop((32, 64), least=1, ratio=1.0)
    # The most of a square that fits has all of the height.
    same = whole(mica.tensor(x[:1], device=device), [0]).cpu().numpy()
    assert np.all(np.diff(same[0, 0, 0]) >= 0)
    with pytest.raises(mica.Error, match="expected 0 < least <= most <= 1"):
        data.random_resized_crop(8, least=0.5, most=0.2)


def test_rand_augment_keeps_range_and_changes_most(rng, device):
    x = rng.uniform(0, 1, (64, 3, 20, 20)).astype(np.float32)
    t = mica.tensor(x, device=device)
    for magnitude in (0, 9, 30):
        y = data.rand_augment(2, magnitude)(t, list(range(64)), seed=4).cpu().numpy()
        assert y.min() >= 0 and y.max() <= 1 + 1e-6 and np.isfinite(y).all()
    changed = (np.abs(y - x).reshape(64, -1).max(1) > 1e-3).mean()
    assert 0.8 < changed <= 1  # two times out of thirteen at once nothing happens
    again = data.rand_augment(2, 30)(t, list(range(64)), seed=4).cpu().numpy()
    assert np.array_equal(y, again)
    grey = data.rand_augment()(mica.tensor(x[:, :1], device=device), list(range(64)))
    assert grey.shape == (64, 1, 20, 20)
    with pytest.raises(mica.Error, match="a magnitude from 0 to 30, got 31"):
        data.rand_augment(2, 31)


@pytest.mark.parametrize("alpha", [1.0, 0.2])
def test_mixing(rng, device, alpha):
    mica.manual_seed(2)
    x = mica.tensor(rng.uniform(0, 1, (6, 2, 8, 8)).astype(np.float32), device=device)
    y = mica.tensor([0, 1, 2, 3, 0, 1], device=device)
    shares = []
    for mix in (data.mixup, data.cutmix):
        for _ in range(40):
            mixed, classes = mix(x, y, 4, alpha)
            p = classes.cpu().numpy()
            assert np.allclose(p.sum(1), 1, atol=1e-6)
            share = p[1, 1]  # of image 1 beside image 0
            shares.append(share)
            a, b = x.cpu().numpy()[1], x.cpu().numpy()[0]
            m = mixed.cpu().numpy()[1]
            if mix is data.mixup:
                assert np.allclose(m, share * a + (1 - share) * b, atol=1e-5)
            else:
                own, other = m == a, m == b
                assert (own | other).all() and abs(own[0].mean() - share) < 1e-5
                assert (own[0] == own[1]).all()
    spread = np.std(shares[:40])
    assert spread > (0.38 if alpha < 1 else 0.2)  # Beta(0.2, 0.2) is near 0 and 1
    loss = mica.nn.functional.cross_entropy(mica.zeros(6, 4, device=device), classes)
    assert abs(loss.item() - np.log(4)) < 1e-6
    with pytest.raises(mica.ShapeError, match="images \\(N, C, H, W\\) and classes \\(N\\)"):
        data.mixup(x, y[:3], 4)


def test_mixing_in_a_compiled_step(device):
    x, y = mica.rand(4, 1, 6, 6, device=device), mica.tensor([0, 1, 2, 0], device=device)

    @mica.compile
    def step(x, y):
        mixed, classes = data.cutmix(*data.mixup(x, y, 3, 0.4)[:1], y, 3)
        return mixed.sum(), classes

    first, second = step(x, y)[0].item(), step(x, y)[0].item()
    assert first != second and step.captures == 1


def test_reports_show_the_classes_of_pixels(rng, device, tmp_path):
    images, classes = blocks(rng)
    classes[0, :3] = -100
    net = models.unet(num_classes=5, in_channels=1, width=2).to(device)
    loader = data.DataLoader((images, classes), 4, device=device, augment=[data.flip()], masks=True)
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    trainer = train.Trainer(net, optimizer, epochs=1, out=tmp_path, progress=False)
    outcome = trainer.fit(loader, loader)
    assert 0 <= outcome.epochs[-1].metrics["mean_iou"] <= 1
    page = (tmp_path / "report.html").read_text()
    assert "Pixels by class" in page and page.count("image, truth, guess") == 4
    assert net.training
