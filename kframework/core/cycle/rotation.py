"""The part of the nodes that a search covers: where it starts, and how many feasible nodes are enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.state.node_order import Positions

T = TypeVar("T")


class Rotation(msgspec.Struct, eq=False):
    """The start of the next search in node order; shared by all profiles."""

    next_start_index: int = 0


class SearchStart:
    """The state in which the next search begins, to be restored: where it starts, and how it breaks ties."""

    def __init__(self, rotation: Rotation, random: Random) -> None:
        self._rotation, self._index = rotation, rotation.next_start_index
        self._random, self._state = random, random.getstate()

    def restore(self) -> None:
        """Let the next search begin there."""
        self._rotation.next_start_index = self._index
        self._random.setstate(self._state)


class WalkStart:
    """The state in which each of several walks over a group begins, so that none depends on those before."""

    def __init__(self, random: Random, rotation: Rotation) -> None:
        self._random = random
        self._rotation = rotation
        self._index = rotation.next_start_index
        self._choice = random.random()
        self._seed = random.getrandbits(64)

    def restore(self) -> None:
        """Begin a walk."""
        self._random.seed(self._seed)
        self._rotation.next_start_index = self._index

    def draw(self, options: Sequence[T]) -> T:
        """Draw one of the best walks."""
        return options[int(self._choice * len(options))]

    def end(self, index: int) -> None:
        """Go on after the chosen walk, which left this start index."""
        self._random.seed(self._seed + 1)
        self._rotation.next_start_index = index


def nodes_to_find(nodes: int, percentage: int) -> int:
    """Return how many feasible nodes are enough (kube-scheduler's numFeasibleNodesToFind); percentage 0 is adaptive."""
    if nodes < 100:
        return nodes
    percentage = percentage or max(50 - nodes // 125, 5)
    return max(nodes * percentage // 100, 100)


def find_first_passing(passing: NDArray[np.bool_], rejected: int, start: int, enough: int) -> tuple[Positions, int]:
    """Return the positions of the first passing nodes, at most `enough`, and how many nodes were evaluated.

    `passing` is in node order, False for `rejected` of them. As in kube-scheduler the search ends before the node that
    would be one more than enough.
    """
    nodes = len(passing)
    start %= max(nodes, 1)
    if not rejected and start + enough <= nodes:
        return slice(start, start + enough), enough
    # Enough nodes if the passing ones are spread evenly, plus an eighth.
    likely = min((enough + 1) * nodes * 9 // (8 * max(1, nodes - rejected)) + 8, nodes)
    if start + likely <= nodes:
        found = passing[start : start + likely].nonzero()[0]
        if len(found) > enough:
            return found[:enough] + start, found.item(enough)
    found = np.concatenate((passing[start:].nonzero()[0] + start, passing[:start].nonzero()[0]))
    if len(found) <= enough:
        return found, nodes
    return found[:enough], (found.item(enough) - start) % nodes


def row_by_row(positions: NDArray[np.int64], node_order: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield these positions with their rows, block by block, as most searches end early."""
    for begin in range(0, len(positions), 512):
        block = positions[begin : begin + 512]
        yield from zip(block.tolist(), node_order[block].tolist(), strict=True)
