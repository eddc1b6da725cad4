"""Which PersistentVolumeClaims the pods on the nodes use, and where."""

from __future__ import annotations

from collections.abc import Mapping

from kframework.state.row_counts import RowCounts


class ClaimUsers:
    """How many pods use a claim on which rows; only claims that some pod on a node uses are known.

    Counted are volumes of the kind `persistentVolumeClaim`, not ephemeral ones (kube-scheduler's PVCRefCounts).
    """

    def __init__(self) -> None:
        self._users = RowCounts[tuple[str, str]]()

    def count(self, namespace: str, name: str, row: int, more: int) -> None:
        """Note that so many pods more (or, negative, fewer) use the claim on this row."""
        self._users.count((namespace, name), row, more)

    def rows(self, namespace: str, name: str) -> Mapping[int, int]:
        """Return how many pods use the claim, by row; empty if nobody does."""
        return self._users.rows((namespace, name))

    def __len__(self) -> int:
        return len(self._users)

    def __repr__(self) -> str:
        return f"<ClaimUsers of {len(self)} claims>"
