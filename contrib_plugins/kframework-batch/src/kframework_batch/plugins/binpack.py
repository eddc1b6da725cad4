"""binpack: the fuller a node, the better."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from kframework import NodeInfo
from kframework_batch.hookspecs import Rows
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, hookimpl
from kframework_batch.session_view import SessionView

MAX_SCORE = 100


class WeightedArguments(BatchArguments):
    """What resources weigh; of others than cpu and memory `resources` is a list, by commas.

    The weight of a listed resource has the list's own key followed by its name: `<key>.<name>`. A resource
    weighs 1 if nothing is said, or if what is said is below 0.
    """

    cpu: int = 1
    memory: int = 1
    resources: str = ""

    @cached_property
    def weights(self) -> Mapping[str, int]:
        """What each resource weighs; ValueError for what is no whole number."""
        weights: dict[str, int] = {}
        for name in filter(None, map(str.strip, self.resources.split(","))):
            key = f"{type(self).model_fields['resources'].alias}.{name}"
            value = (self.model_extra or {}).get(key, 1)
            try:
                weights[name] = int(value)
            except (TypeError, ValueError):
                raise ValueError(f"{key}: expected a whole number, not {value!r}") from None
        weights |= {"cpu": self.cpu, "memory": self.memory}
        return {name: 1 if weight < 0 else weight for name, weight in weights.items()}

    @model_validator(mode="after")
    def _read_weights(self) -> Self:
        """Refuse a weight that is no number when the configuration is read, not in the first session."""
        assert self.weights
        return self


class BinpackArguments(WeightedArguments):
    """What the plugin as a whole weighs, and each resource."""

    weight: int = Field(1, alias="binpack.weight")
    cpu: int = Field(1, alias="binpack.cpu")
    memory: int = Field(1, alias="binpack.memory")
    resources: str = Field("", alias="binpack.resources")


class Binpack(BatchPlugin):
    """Scores a node by how full it would be with the task: the weighted mean over what the task asks for.

    Of resources that the task does not ask for, or that have no weight, nothing counts. A node that would be too full
    scores 0. Full is what the session makes of the node: promised tasks are on it, victims are not.
    """

    name: ClassVar[str] = "binpack"
    Arguments: ClassVar[type[BatchArguments]] = BinpackArguments

    arguments: BinpackArguments

    def sign(self, session: SessionView, task: TaskInfo) -> Hashable | None:
        """Sign what the task asks for: nothing else counts."""
        return tuple(task.request.items())

    @hookimpl
    def node_order(self, session: SessionView, task: TaskInfo, node: NodeInfo) -> float:
        score, weights = 0.0, 0
        for resource, amount, weight in self._weighted_requests(task):
            offered, taken = node.allocatable(resource), node.requested(resource) + amount
            weights += weight
            if offered and weight:
                if taken > offered:
                    return 0.0
                score += float(taken * weight) / float(offered)
        return score / weights * self._max_score if weights else 0.0

    @hookimpl
    def node_order_nodes(self, session: SessionView, task: TaskInfo, rows: Rows) -> NDArray[np.float64]:
        nodes, weights = session.nodes, 0
        scores, too_full = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.bool_)
        for resource, amount, weight in self._weighted_requests(task):
            offered, taken = nodes.allocatable(resource)[rows], nodes.requested(resource)[rows] + amount
            weights += weight
            if weight:
                there = offered != 0
                too_full |= there & (taken > offered)
                scores += np.divide(taken * weight, offered, out=np.zeros(len(rows)), where=there)
        if weights:
            scores = scores / weights * self._max_score
        scores[too_full] = 0.0
        return scores

    @property
    def _max_score(self) -> int:
        """What a node scores that would be full."""
        return MAX_SCORE * self.arguments.weight

    def _weighted_requests(self, task: TaskInfo) -> Iterator[tuple[str, int, int]]:
        """Yield what the task asks for and what that weighs, where it has a weight."""
        weights = self.arguments.weights
        return ((name, amount, weights[name]) for name, amount in task.request.items() if name in weights)
