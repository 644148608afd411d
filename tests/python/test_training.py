"""LeNet learns a part of Fashion-MNIST from Python."""

import mica
import mica.nn.functional as F
import numpy as np
import pytest


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_lenet_learns(fashion, device, compiled):
    images, labels = fashion
    net = mica.models.lenet().to(device)
    optimizer = mica.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)

    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    if compiled:
        step = mica.compile(step)
    for epoch in range(3):
        for x, y in mica.data.batches(images, labels, 50, shuffle=1, epoch=epoch, device=device):
            loss = step(x, y)
    assert loss.item() < 1.2
    assert mica.train.accuracy(net, images, labels) > 0.7


def test_batches(fashion):
    images, labels = fashion
    plain = mica.data.batches(images, labels, 300)
    assert len(plain) == 7
    xs, ys = zip(*plain, strict=True)
    assert [len(x) for x in xs] == [300] * 6 + [200]
    np.testing.assert_array_equal(np.concatenate([y.numpy() for y in ys]), labels.numpy())
    np.testing.assert_array_equal(np.concatenate([x.numpy() for x in xs]), images.numpy())

    def order(**options):
        batches = mica.data.batches(images, labels, 300, **options)
        return np.concatenate([y.numpy() for _, y in batches])

    np.testing.assert_array_equal(order(shuffle=4), order(shuffle=4))
    assert (order(shuffle=4) != order(shuffle=4, epoch=1)).any()
    np.testing.assert_array_equal(np.sort(order(shuffle=4)), np.sort(labels.numpy()))
    with pytest.raises(mica.Error, match="batch"):
        mica.data.batches(images, labels, 0)
