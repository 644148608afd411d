"""Optimizers, learning-rate schedules and clipping of gradients."""

from mica._mica import optim as _optim
from mica.optim import lr_scheduler as lr_scheduler

Optimizer = _optim.Optimizer
SGD = _optim.SGD
Adam = _optim.Adam
AdamW = _optim.AdamW
RMSprop = _optim.RMSprop
Adagrad = _optim.Adagrad
Adadelta = _optim.Adadelta
Adafactor = _optim.Adafactor
Adamax = _optim.Adamax
ASGD = _optim.ASGD
NAdam = _optim.NAdam
RAdam = _optim.RAdam
Rprop = _optim.Rprop
Lion = _optim.Lion
Muon = _optim.Muon
LBFGS = _optim.LBFGS
EMA = _optim.EMA

Schedule = _optim.Schedule
constant = _optim.constant
constant_factor = _optim.constant_factor
step = _optim.step
multi_step = _optim.multi_step
exponential = _optim.exponential
cosine = _optim.cosine
cosine_periodic = _optim.cosine_periodic
cosine_restarts = _optim.cosine_restarts
cyclic = _optim.cyclic
linear = _optim.linear
one_cycle = _optim.one_cycle
polynomial = _optim.polynomial
time_decay = _optim.time_decay
warmup = _optim.warmup
sequential = _optim.sequential
chained = _optim.chained

accumulate_backward = _optim.accumulate_backward
clip_grad_norm_ = _optim.clip_grad_norm_
clip_grad_value_ = _optim.clip_grad_value_
get_total_norm = _optim.get_total_norm
