"""Where PyTorch's users look for the clipping of gradients."""

from mica._mica import optim as _optim

clip_grad_norm_ = _optim.clip_grad_norm_
clip_grad_value_ = _optim.clip_grad_value_
