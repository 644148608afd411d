"""torch.backends.cpu."""


def get_cpu_capability() -> str:
    """Which vectors PyTorch would use is not known; mica chooses its kernels itself."""
    return "DEFAULT"
