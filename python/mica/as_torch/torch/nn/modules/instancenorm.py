"""torch.nn.modules.instancenorm."""

from torch.nn.modules._kinds import any_of

_InstanceNorm = any_of("_InstanceNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
