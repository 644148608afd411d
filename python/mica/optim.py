"""Optimizers, learning-rate schedules and clipping of gradients."""

from mica._mica import optim as _optim

Optimizer = _optim.Optimizer
SGD = _optim.SGD
Adam = _optim.Adam
AdamW = _optim.AdamW
RMSprop = _optim.RMSprop
Adagrad = _optim.Adagrad

Schedule = _optim.Schedule
constant = _optim.constant
step = _optim.step
multi_step = _optim.multi_step
exponential = _optim.exponential
cosine = _optim.cosine
linear = _optim.linear
one_cycle = _optim.one_cycle
time_decay = _optim.time_decay
warmup = _optim.warmup

clip_grad_norm_ = _optim.clip_grad_norm_
clip_grad_value_ = _optim.clip_grad_value_
