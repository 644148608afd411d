"""torch.nn.modules.batchnorm."""

from torch.nn.modules._kinds import any_of

_BatchNorm = any_of("_BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
_NormBase = any_of("_NormBase", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d",
                   "InstanceNorm2d", "InstanceNorm3d")  # fmt: skip
