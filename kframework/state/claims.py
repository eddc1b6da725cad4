"""Which PersistentVolumeClaims the pods on the nodes use, and where."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["ClaimUsers"]

_NOWHERE: Mapping[int, int] = MappingProxyType({})


class ClaimUsers:
    """How many pods use a claim on which rows; only claims that some pod on a node uses are known.

    Counted are volumes of the kind `persistentVolumeClaim`, not ephemeral ones (kube-scheduler's PVCRefCounts).
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], dict[int, int]] = {}

    def count(self, namespace: str, name: str, row: int, more: int) -> None:
        """Note that so many pods more (or, negative, fewer) use the claim on this row."""
        rows = self._rows.setdefault((namespace, name), {})
        left = rows.get(row, 0) + more
        if left:
            rows[row] = left
            return
        del rows[row]
        if not rows:
            del self._rows[namespace, name]

    def rows(self, namespace: str, name: str) -> Mapping[int, int]:
        """Return how many pods use the claim, by row; empty if nobody does."""
        return self._rows.get((namespace, name), _NOWHERE)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<ClaimUsers of {len(self)} claims>"
