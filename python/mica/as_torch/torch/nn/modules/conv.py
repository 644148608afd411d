"""torch.nn.modules.conv."""

from torch.nn.modules._kinds import any_of

_ConvTransposeNd = any_of("_ConvTransposeNd", "ConvTranspose1d", "ConvTranspose2d",
                          "ConvTranspose3d")  # fmt: skip
_ConvNd = any_of("_ConvNd", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
                 "ConvTranspose3d")  # fmt: skip
