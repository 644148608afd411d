"""Modules and layers, with PyTorch's names."""

from mica._mica import nn as _nn
from mica.nn import functional as functional

BatchNorm2d = _nn.BatchNorm2d
Conv2d = _nn.Conv2d
Dropout = _nn.Dropout
Flatten = _nn.Flatten
Linear = _nn.Linear
MaxPool2d = _nn.MaxPool2d
Module = _nn.Module
Parameter = _nn.Parameter
ReLU = _nn.ReLU
Sequential = _nn.Sequential
