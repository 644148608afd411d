"""torch.backends.mps: Apple's GPUs, which mica does not run on."""


def is_available() -> bool:
    return False


is_built = is_available
