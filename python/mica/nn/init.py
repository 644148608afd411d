"""How parameters get their first values, with PyTorch's names: each fills its tensor in place."""

from mica._mica import nn as _nn

calculate_gain = _nn.init.calculate_gain
constant_ = _nn.init.constant_
dirac_ = _nn.init.dirac_
eye_ = _nn.init.eye_
fans = _nn.init.fans
kaiming_normal_ = _nn.init.kaiming_normal_
kaiming_uniform_ = _nn.init.kaiming_uniform_
normal_ = _nn.init.normal_
ones_ = _nn.init.ones_
orthogonal_ = _nn.init.orthogonal_
trunc_normal_ = _nn.init.trunc_normal_
uniform_ = _nn.init.uniform_
xavier_normal_ = _nn.init.xavier_normal_
xavier_uniform_ = _nn.init.xavier_uniform_
zeros_ = _nn.init.zeros_
