"""torch.ao.quantization: mentioned by torchvision's quantised models, which mica does not run."""

from torch._later import unusable

QuantStub = unusable("torch.ao.quantization.QuantStub")
DeQuantStub = unusable("torch.ao.quantization.DeQuantStub")
