"""Principal components of Fashion-MNIST by singular values: python pca.py [--images 60000].

The images minus their mean are U diag(S) Vh: the rows of Vh are the directions in which they differ
most, and S says how much. A few of them tell a test image's class by its nearest neighbours.
"""

import argparse

import mica

parser = argparse.ArgumentParser()
parser.add_argument("--images", type=int, default=10_000, help="the first of them alone")
count = parser.parse_args().images

images, labels = (t[:count] for t in mica.data.fashion_mnist(train=True))
x = images.float().reshape(count, -1) / 255
mean = x.mean(0)
values, directions = mica.linalg.svd(x - mean, full_matrices=False)[1:]
share = (values**2).cumsum(0) / (values**2).sum()

for k in (2, 10, 50, 200):
    basis = directions[:k]
    again = mean + (x - mean) @ basis.mT @ basis
    error = mica.linalg.norm(again - x) / mica.linalg.norm(x)
    held = share[k - 1].item()
    print(f"{k:4} directions hold {held:.1%} of the variance; error {error.item():.3f}")
    # What svd left out is exactly what the images lose.
    assert abs(mica.linalg.norm(again - x).item() - (values[k:] ** 2).sum().sqrt().item()) < 0.1

tests, answers = (t[:500] for t in mica.data.fashion_mnist(train=False))
basis = directions[:50]
known = (x - mean) @ basis.mT
asked = (tests.float().reshape(500, -1) / 255 - mean) @ basis.mT
nearest = mica.cdist(asked, known).argmin(1)
accuracy = (labels[nearest] == answers).float().mean().item()
print(f"the nearest of {count} images in 50 directions names {accuracy:.1%} of 500 test images")
assert accuracy > 0.5
