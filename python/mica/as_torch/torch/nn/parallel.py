"""torch.nn.parallel: one device in one process."""

from torch.nn import DataParallel


class DistributedDataParallel(DataParallel):
    def __init__(self, module, *args, **options):
        raise NotImplementedError("DistributedDataParallel: mica.as_torch runs one process")


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """The module on its one device."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
