"""torch.jit.annotations: types, which nobody reads."""

from typing import Any


class _Types:
    def __getitem__(self, item: Any) -> Any:
        return Any


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _Types()
