"""The suite runs on the device that MICA_TEST_DEVICE names, the CPU by default."""

import os
import signal

import mica
import numpy as np
import pytest

DEVICE = os.environ.get("MICA_TEST_DEVICE", "cpu")


def pytest_collection_modifyitems(items):
    if DEVICE.startswith("cuda") and not mica.cuda.is_available():
        reason = f"no CUDA device: {mica.cuda.unavailable_reason()}"
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True, scope="session")
def _interrupts():
    """A shell starts what runs in the background with Ctrl-C ignored, and programs inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def device():
    return DEVICE


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _fresh_settings():
    mica.manual_seed(1)
    yield
    mica.set_deterministic(False)


@pytest.fixture
def fashion():
    """The first 2,000 training images and labels of Fashion-MNIST."""
    try:
        images, labels = mica.data.fashion_mnist(train=True)
    except mica.IoError as e:
        pytest.skip(str(e))
    return images[:2000], labels[:2000]
