"""Parameters in lists and dictionaries."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from mica._mica import Tensor
from mica._mica import nn as _nn

Parameters = Mapping[str, Tensor] | Iterable[tuple[str, Tensor]]


def _as_parameter(value: Tensor) -> _nn.Parameter:
    return value if isinstance(value, _nn.Parameter) else _nn.Parameter(value)


class ParameterList(_nn.Module):
    """Parameters that a module registers together, named "0", "1", …."""

    def __init__(self, parameters: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.extend(parameters)

    def append(self, parameter: Tensor) -> Self:
        """Adds a parameter at the end, named by its number."""
        self.register_parameter(str(len(self)), _as_parameter(parameter))
        return self

    def extend(self, parameters: Iterable[Tensor]) -> Self:
        """Adds parameters at the end."""
        for parameter in parameters:
            self.append(parameter)
        return self

    def __len__(self) -> int:
        return len(self.parameters())

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.parameters())

    def __getitem__(self, index: Any) -> Any:
        return self.parameters()[index]

    def __setitem__(self, index: int, parameter: Tensor) -> None:
        setattr(self, str(range(len(self))[index]), _as_parameter(parameter))

    def extra_repr(self) -> str:
        """The shapes."""
        return ", ".join(str(tuple(p.shape)) for p in self)


class ParameterDict(_nn.Module):
    """Parameters by name."""

    def __init__(self, parameters: Parameters = ()) -> None:
        super().__init__()
        self.update(parameters)

    def update(self, parameters: Parameters) -> None:
        """Takes in the parameters of a dictionary, or of pairs (name, parameter)."""
        for name, parameter in dict(parameters).items():
            self[name] = parameter

    def keys(self) -> list[str]:
        """The names."""
        return [name for name, _ in self.named_parameters()]

    def values(self) -> list[Tensor]:
        """The parameters."""
        values: list[Tensor] = self.parameters()
        return values

    def items(self) -> list[tuple[str, Tensor]]:
        """Pairs (name, parameter)."""
        pairs: list[tuple[str, Tensor]] = self.named_parameters()
        return pairs

    def __len__(self) -> int:
        return len(self.parameters())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> Tensor:
        parameter: Tensor = dict(self.named_parameters())[name]
        return parameter

    def __setitem__(self, name: str, parameter: Tensor) -> None:
        if name in self:
            setattr(self, name, _as_parameter(parameter))
        else:
            self.register_parameter(name, _as_parameter(parameter))

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def extra_repr(self) -> str:
        """The names and shapes."""
        return ", ".join(f"{name}: {tuple(p.shape)}" for name, p in self.items())
