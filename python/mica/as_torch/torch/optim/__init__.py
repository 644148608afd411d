"""torch.optim: the class that programs derive optimizers of their own from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import mica


class _Group(dict):
    """A group of parameters; its rate is mica's optimizer's, which schedulers set."""

    def __init__(self, rate: Any, *args: Any) -> None:
        super().__init__(*args)
        self._rate = rate

    def __getitem__(self, key: str) -> Any:
        return self._rate["lr"] if key == "lr" else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "lr":
            self._rate["lr"] = float(value)
        super().__setitem__(key, value)


Optimizer = mica.optim.Optimizer
_make = Optimizer.__init__
_rates = Optimizer.param_groups


class _WithStep:
    """What a class gets that derives from Optimizer and has a `step` of its own."""

    state: Any = None  # its own, in the place of what mica's optimizers show

    def _begin(self, params: Any, defaults: dict[str, Any]) -> None:
        given = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        groups = [defaults | group for group in groups]
        for group in groups:
            single = isinstance(group["params"], mica.Tensor)
            group["params"] = [group["params"]] if single else list(group["params"])
        rates = [{"params": g["params"], "lr": float(g.get("lr", 0))} for g in groups]
        _make(self, rates, {"lr": float(defaults.get("lr", 0))})
        self.defaults = defaults
        self.state: dict[Any, Any] = defaultdict(dict)
        self._groups = [_Group(r, g) for r, g in zip(_rates.fget(self), groups, strict=True)]

    @property
    def param_groups(self) -> list[_Group]:
        return self._groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        group = self.defaults | param_group
        single = isinstance(group["params"], mica.Tensor)
        group["params"] = [group["params"]] if single else list(group["params"])
        rate = {"params": group["params"], "lr": float(group.get("lr", 0))}
        Optimizer.add_param_group(self, rate)
        self._groups.append(_Group(_rates.fget(self)[-1], group))

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.detach().zero_()

    def step(self, closure: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define step")

    def _params(self) -> list[Any]:
        return [p for group in self._groups for p in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        at = {id(p): i for i, p in enumerate(self._params())}
        groups = [
            {k: g[k] for k in g} | {"params": [at[id(p)] for p in g["params"]]}
            for g in self._groups
        ]
        return {"state": {at[id(p)]: s for p, s in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        params = self._params()
        for group, loaded in zip(self._groups, state_dict["param_groups"], strict=True):
            for key, value in loaded.items():
                if key != "params":
                    group[key] = value
        self.state.clear()
        for i, state in state_dict["state"].items():
            self.state[params[int(i)]] = state


def _init(self: Any, params: Any, defaults: dict[str, Any], **options: Any) -> None:
    begin = getattr(self, "_begin", None)
    begin(params, defaults) if begin else _make(self, params, defaults, **options)


def _init_subclass(cls: type, **options: Any) -> None:
    object.__init_subclass__(**options)
    if hasattr(cls, "update") or cls.param_groups is not _rates:
        return  # mica's way, or one of mica's optimizers
    for name, value in vars(_WithStep).items():
        if name not in vars(cls) and not name.startswith("__"):
            setattr(cls, name, value)


_load = Optimizer.load_state_dict
_own_state = Optimizer.state_dict
_NAMES = {"momentum_buffer": "momentum"}  # what is called otherwise in mica's optimizers
_THEIRS = {own: theirs for theirs, own in _NAMES.items()}


def _states(self: Any) -> dict[int, dict[str, Any]]:
    """The tensors of each parameter that was updated, by its number and under PyTorch's names."""
    own = _own_state(self)
    step = own["step"].float() if "step" in own else None
    states: dict[int, dict[str, Any]] = {}
    if step is not None and not step.item():
        return states
    for name, value in own.items():
        number, _, key = name.partition(".")
        if key and number.isdigit():
            state = states.setdefault(int(number), {} if step is None else {"step": step})
            state[_THEIRS.get(key, key)] = value
    return states


def _state_dict(self: Any) -> dict[str, Any]:
    """In PyTorch's form: options by group, tensors by parameter."""
    first = 0
    groups = []
    for group in self.param_groups:
        count = len(group["params"])
        options = {key: group[key] for key in group if key != "params"}
        groups.append(options | {"params": list(range(first, first + count))})
        first += count
    return {"state": _states(self), "param_groups": groups}


class _ByParameter(Mapping):
    """States by parameter: by where its numbers lie, since another object may stand for it."""

    def __init__(self, params: list[Any], states: dict[int, dict[str, Any]]) -> None:
        self._of = {params[i].data_ptr(): (params[i], state) for i, state in states.items()}

    def __getitem__(self, parameter: Any) -> dict[str, Any]:
        found = self._of.get(parameter.data_ptr())
        return found[1] if found else {}

    def __contains__(self, parameter: Any) -> bool:
        return parameter.data_ptr() in self._of

    def __iter__(self) -> Iterator[Any]:
        return (parameter for parameter, _ in self._of.values())

    def __len__(self) -> int:
        return len(self._of)


def _state(self: Any) -> _ByParameter:
    params = [p for group in self.param_groups for p in group["params"]]
    return _ByParameter(params, _states(self))


def _load_state_dict(self: Any, state_dict: dict[str, Any]) -> None:
    """A state that mica's optimizer gave, or PyTorch's: options by group, tensors by parameter."""
    if "param_groups" not in state_dict:
        _load(self, state_dict)
        return
    for group, loaded in zip(self.param_groups, state_dict["param_groups"], strict=True):
        for key, value in loaded.items():
            if key != "params" and key in group:
                group[key] = value
    own = _own_state(self)
    for number, state in state_dict["state"].items():
        given = {key: value for key, value in state.items() if value is not None}
        step = given.pop("step", 1 if given else 0)  # SGD counts none; its first is another
        own["step"] = mica.tensor(int(step), dtype=mica.int64)
        for key, value in given.items():
            name = f"{number}.{_NAMES.get(key, key)}"
            if name not in own:
                raise ValueError(f"{type(self).__name__}.load_state_dict: unexpected {key!r}")
            own[name] = value.to(own[name].dtype)
    _load(self, own)


Optimizer.load_state_dict = _load_state_dict
Optimizer.state_dict = _state_dict
Optimizer.state = property(_state)
Optimizer.__init__ = _init
Optimizer.__init_subclass__ = classmethod(_init_subclass)


def _from_pytorch(kind: Any, names: dict[str, str]) -> None:
    """Schedulers of this kind also take PyTorch's states: numbers, under these names."""
    load = kind.load_state_dict

    def load_state_dict(self: Any, state_dict: dict[str, Any]) -> None:
        if "last_epoch" in state_dict:
            own = self.state_dict()
            for name, theirs in names.items():
                value = state_dict[theirs] + 1 if name == "step" else state_dict[theirs]
                own[name] = mica.tensor(value, dtype=own[name].dtype)
            state_dict = own
        load(self, state_dict)

    kind.load_state_dict = load_state_dict


_from_pytorch(
    mica.optim.lr_scheduler.LRScheduler,
    {"step": "last_epoch", "initial_lr": "base_lrs", "lr": "_last_lr"},
)
_PLATEAU = ("best", "num_bad_epochs", "cooldown_counter")
_from_pytorch(
    mica.optim.lr_scheduler.ReduceLROnPlateau, {n: n for n in _PLATEAU} | {"lr": "_last_lr"}
)


def _number(name: str) -> property:
    return property(lambda self: self.state_dict()[name].item())


for _name in ("best", "num_bad_epochs", "cooldown_counter"):
    setattr(mica.optim.lr_scheduler.ReduceLROnPlateau, _name, _number(_name))
mica.optim.lr_scheduler.LRScheduler.base_lrs = property(
    lambda self: self.state_dict()["initial_lr"].tolist()
)
