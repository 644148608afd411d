"""Modules as pickle writes them: the class, what its layer was made with, and values.

Nothing of a module's code is written. What is loaded is made by the classes of the program that
loads it, as far as pickle is trusted with the file.
"""

from __future__ import annotations

from typing import Any

from mica._mica import nn as _nn


def reduce(module: Any) -> Any:
    """What pickle asks of an object."""
    kept = set(module.state_dict())
    state = (
        dict(module.__dict__),
        [(n, p.detach(), p.requires_grad) for n, p in module.named_parameters(recurse=False)],
        [(n, b, n in kept) for n, b in module.named_buffers(recurse=False)],
        list(module.named_children()),
        module.training,
    )
    return rebuild, (type(module), module._module_options()), state, None, None, restore


def rebuild(cls: type, options: Any) -> Any:
    """A module of a class with the layer's own parts, as its constructor would make it."""
    return getattr(_nn.Module, "_make_module")(cls, options)  # noqa: B009


def restore(module: Any, state: Any) -> None:
    """Gives it the attributes, values and parts that were written."""
    plain, parameters, buffers, children, training = state
    module.__dict__.update(plain)
    known = dict(module.named_parameters(recurse=False))
    for name in known.keys() - {name for name, _, _ in parameters}:
        delattr(module, name)
    for name, value, requires_grad in parameters:
        if name in known:
            known[name].data = value
            known[name].requires_grad = requires_grad
        else:
            module.register_parameter(name, _nn.Parameter(value, requires_grad))
    known = dict(module.named_buffers(recurse=False))
    for name, value, persistent in buffers:
        if name in known:
            known[name].data = value
        else:
            module.register_buffer(name, value, persistent)
    known = dict(module.named_children())
    for name, child in children:
        if name in known:
            setattr(module, name, child)
        else:
            module.add_module(name, child)
    modes = [(part, part.training) for _, child in children for part in child.modules()]
    module.train(training)
    for part, mode in modes:  # from the outside in
        part.train(mode)
