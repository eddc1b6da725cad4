"""Which images lie on which nodes, and how large they are: what ImageLocality weighs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework.objects import ContainerImage


class ImageState(NamedTuple):
    """An image under one of its names: its size in bytes, and the rows of the nodes that have it, as bits."""

    size: int
    rows: int

    @property
    def nodes(self) -> int:
        """The number of nodes that have the image."""
        return self.rows.bit_count()

    def on(self, row: int) -> bool:
        """Return whether the node of this row has the image."""
        return bool(self.rows >> row & 1)

    def column(self, capacity: int) -> NDArray[np.int64]:
        """Return 1 for every row that has the image, as a column of the node table."""
        return _bits(self.rows, capacity).astype(np.int64)


class ImageStates:
    """The images on all nodes, by the names that the nodes report.

    The size is what the first node said; it stands until no node has the image any more.
    """

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}

    def get(self, name: str) -> ImageState | None:
        """Return what is known of an image, None if it lies on no node."""
        return self._states.get(name)

    def add(self, row: int, images: Iterable[ContainerImage]) -> None:
        """Take in what a new node reports."""
        for name, size in _named(images):
            first, rows = self._states.get(name) or (size, 0)
            self._states[name] = ImageState(first, rows | 1 << row)

    def remove(self, row: int, images: Iterable[ContainerImage]) -> None:
        """Forget what a node had reported."""
        for name in dict(_named(images)):
            size, rows = self._states.pop(name)
            rows &= ~(1 << row)
            if rows:
                self._states[name] = ImageState(size, rows)

    def replace(self, row: int, old: Iterable[ContainerImage], new: Iterable[ContainerImage]) -> list[int]:
        """Take in what a node reports now; list the rows of other nodes with an image whose state has changed."""
        before = {name: self.get(name) for name, _ in (*_named(old), *_named(new))}
        self.remove(row, old)
        self.add(row, new)
        changed = 0
        for name, state in before.items():
            after = self.get(name)
            if after != state:
                changed |= (state.rows if state else 0) | (after.rows if after else 0)
        changed &= ~(1 << row)
        rows: list[int] = np.flatnonzero(_bits(changed, changed.bit_length())).tolist()
        return rows

    def __len__(self) -> int:
        return len(self._states)


def _named(images: Iterable[ContainerImage]) -> Iterator[tuple[str, int]]:
    return ((name, image.size_bytes) for image in images for name in image.names)


def _bits(rows: int, length: int) -> NDArray[np.uint8]:
    packed = np.frombuffer(rows.to_bytes((length + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=length, bitorder="little")
