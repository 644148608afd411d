"""Parameters in lists and dictionaries."""

from mica._mica import nn as _nn


def _as_parameter(value):
    return value if isinstance(value, _nn.Parameter) else _nn.Parameter(value)


class ParameterList(_nn.Module):
    """Parameters that a module registers together, named "0", "1", …."""

    def __init__(self, parameters=()):
        super().__init__()
        self.extend(parameters)

    def append(self, parameter):
        self.register_parameter(str(len(self)), _as_parameter(parameter))
        return self

    def extend(self, parameters):
        for parameter in parameters:
            self.append(parameter)
        return self

    def __len__(self):
        return len(self.parameters())

    def __iter__(self):
        return iter(self.parameters())

    def __getitem__(self, index):
        return self.parameters()[index]

    def __setitem__(self, index, parameter):
        setattr(self, str(range(len(self))[index]), _as_parameter(parameter))

    def extra_repr(self):
        return ", ".join(str(tuple(p.shape)) for p in self)


class ParameterDict(_nn.Module):
    """Parameters by name."""

    def __init__(self, parameters=()):
        super().__init__()
        self.update(parameters)

    def update(self, parameters):
        for name, parameter in dict(parameters).items():
            self[name] = parameter

    def keys(self):
        return [name for name, _ in self.named_parameters()]

    def values(self):
        return self.parameters()

    def items(self):
        return self.named_parameters()

    def __len__(self):
        return len(self.parameters())

    def __iter__(self):
        return iter(self.keys())

    def __contains__(self, name):
        return name in self.keys()

    def __getitem__(self, name):
        return dict(self.named_parameters())[name]

    def __setitem__(self, name, parameter):
        if name in self:
            setattr(self, name, _as_parameter(parameter))
        else:
            self.register_parameter(name, _as_parameter(parameter))

    def __delitem__(self, name):
        delattr(self, name)

    def extra_repr(self):
        return ", ".join(f"{name}: {tuple(p.shape)}" for name, p in self.items())
