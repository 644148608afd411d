"""PyTorch's modules: which of mica's each one takes its names from.

A module with names of its own has a file in torch/, and stands here too where it also has
others'. Sources are asked in their order.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(__file__)

_LAYERS = (
    "activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold "
    "instancenorm lazy linear loss module normalization padding pixelshuffle pooling rnn sparse "
    "transformer upsampling"
).split()
_OPTIMIZERS = (
    "adadelta adafactor adagrad adam adamax adamw asgd lbfgs nadam optimizer radam rmsprop rprop "
    "sgd"
).split()

_DISTRIBUTIONS = (
    "bernoulli categorical distribution exponential independent kl laplace multivariate_normal "
    "normal uniform"
).split()

SOURCES: dict[str, tuple[str, ...]] = {
    "torch": ("mica", "mica.nn.functional"),  # torch.conv2d and the like
    "torch.amp": ("mica.amp", "mica"),
    "torch.autograd": ("mica.autograd",),
    "torch.autograd.function": ("mica.autograd",),
    "torch.autograd.grad_mode": ("mica.autograd", "mica"),
    "torch.cpu": ("mica.cpu",),
    "torch.cuda": ("mica.cuda",),
    "torch.cuda.amp": ("mica.amp", "mica"),
    "torch.linalg": ("mica.linalg",),
    "torch.nn": ("mica.nn",),
    "torch.nn.functional": ("mica.nn.functional",),
    "torch.nn.init": ("mica.nn.init",),
    "torch.nn.modules": ("mica.nn",),
    "torch.nn.modules.utils": (),
    "torch.nn.parallel": ("torch.nn",),
    "torch.nn.parameter": ("mica.nn",),
    "torch.nn.utils": ("mica.nn.utils",),
    "torch.nn.utils.clip_grad": ("mica.nn.utils",),
    "torch.nn.utils.convert_parameters": ("mica.nn.utils",),
    "torch.nn.utils.parametrizations": ("mica.nn.utils.parametrizations",),
    "torch.nn.utils.parametrize": ("mica.nn.utils.parametrize",),
    "torch.nn.utils.rnn": ("mica.nn.utils.rnn",),
    "torch.optim": ("mica.optim",),
    "torch.optim.lr_scheduler": ("mica.optim.lr_scheduler",),
    "torch.profiler": ("mica.profiler",),
    "torch.special": ("torch",),
    "torch.types": ("torch",),
    "torch.utils": (),
    "torch.utils.data": ("mica.data",),
    "torch.utils.data.dataloader": ("torch.utils.data",),
    "torch.utils.data.dataset": ("torch.utils.data",),
    "torch.utils.data.distributed": ("torch.utils.data",),
    "torch.utils.data.sampler": ("torch.utils.data",),
    "torch.utils.model_zoo": ("torch.hub",),
} | {
    f"torch.distributions.{name}": ("torch.distributions",) for name in _DISTRIBUTIONS
} | {
    f"torch.nn.modules.{name}": ("torch.nn",) for name in _LAYERS
} | {
    f"torch.optim.{name}": ("torch.optim",) for name in _OPTIMIZERS
}  # fmt: skip


def _file_of(name: str) -> str | None:
    base = os.path.join(_HERE, *name.split("."))
    return next((f for f in (base + ".py", f"{base}/__init__.py") if os.path.exists(f)), None)


def _is_module(name: str) -> bool:
    return name in SOURCES or _file_of(name) is not None


class TorchModule(ModuleType):
    """A module of torch's tree. A name that no source has raises AttributeError, which says so."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [n for n in dir(self) if not n.startswith("_")]
        if not name.startswith("__"):
            if _is_module(f"{self.__name__}.{name}"):  # PyTorch imports most of its own by itself
                return importlib.import_module(f"{self.__name__}.{name}")
            for source in SOURCES.get(self.__name__, ()):
                try:
                    value = getattr(importlib.import_module(source), name)
                except (AttributeError, ModuleNotFoundError):
                    continue
                self.__dict__[name] = value
                return value
        raise AttributeError(f"mica has nothing that stands for {self.__name__}.{name}")

    def __dir__(self) -> list[str]:
        names = set(self.__dict__)
        for source in SOURCES.get(self.__name__, ()):
            if importlib.util.find_spec(source) is not None:
                names.update(dir(importlib.import_module(source)))
        return sorted(names)


class Loader(importlib.abc.Loader):
    """Makes a TorchModule, and runs its file where it has one."""

    def __init__(self, file: str | None) -> None:
        self._file = file

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return TorchModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if self._file is None:
            return
        module.__file__ = self._file
        with open(self._file, encoding="utf-8") as file:
            code = compile(file.read(), self._file, "exec")
        exec(code, module.__dict__)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of this tree, and no others'."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] != "torch":
            return None
        if not _is_module(fullname):
            return None
        file = _file_of(fullname)
        spec = importlib.machinery.ModuleSpec(fullname, Loader(file), is_package=True)
        spec.origin = file
        return spec


def install() -> None:
    """From here on `import torch` gives this tree. Raises where torch itself was imported."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    if "torch" in sys.modules:
        raise RuntimeError("mica.as_torch: torch was imported before; start with this command")
    sys.meta_path.insert(0, Finder())
    importlib.import_module("mica.as_torch._abstract").install()
