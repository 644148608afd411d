"""Where PyTorch's users look for the clipping of gradients, for parameters as one vector and for
parametrizations."""

import typing as _typing
from importlib import import_module as _import_module

from mica._mica import optim as _optim
from mica.nn.utils import rnn as rnn
from mica.nn.vectors import parameters_to_vector as parameters_to_vector
from mica.nn.vectors import vector_to_parameters as vector_to_parameters

clip_grad_norm_ = _optim.clip_grad_norm_
clip_grad_value_ = _optim.clip_grad_value_
get_total_norm = _optim.get_total_norm

if _typing.TYPE_CHECKING:
    from mica.nn.utils import parametrizations as parametrizations
    from mica.nn.utils import parametrize as parametrize
    from mica.nn.utils._older_norms import remove_spectral_norm as remove_spectral_norm
    from mica.nn.utils._older_norms import remove_weight_norm as remove_weight_norm
    from mica.nn.utils._older_norms import spectral_norm as spectral_norm
    from mica.nn.utils._older_norms import weight_norm as weight_norm

_LATER = ("remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm")


def __getattr__(name: str) -> _typing.Any:
    """Parametrizations are imported when they are first asked for."""
    if name in ("parametrizations", "parametrize"):
        return _import_module(f"mica.nn.utils.{name}")
    if name in _LATER:
        value = globals()[name] = getattr(_import_module("mica.nn.utils._older_norms"), name)
        return value
    raise AttributeError(f"module 'mica.nn.utils' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, "parametrizations", "parametrize"})
