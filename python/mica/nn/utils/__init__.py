"""Where PyTorch's users look for the clipping of gradients, and for parameters as one vector."""

from mica._mica import optim as _optim
from mica.nn.utils import rnn as rnn
from mica.nn.vectors import parameters_to_vector as parameters_to_vector
from mica.nn.vectors import vector_to_parameters as vector_to_parameters

clip_grad_norm_ = _optim.clip_grad_norm_
clip_grad_value_ = _optim.clip_grad_value_
