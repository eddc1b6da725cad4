"""The answer to whether a workload fits: in Python, as JSON, and the source of the text."""

from __future__ import annotations

import msgspec

from kframework.explain.remedies.remedies import Remedy
from kframework.values.answer import Answer


class PodPlace(msgspec.Struct, frozen=True):
    """A pod, `namespace/name`, and its node; without one, `message` is the reason."""

    pod: str
    node: str
    message: str = ""


class DisplacedPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod, `namespace/name`, that is evicted from a node for another one, and where it goes if it is recreated."""

    pod: str
    evicted_for: str
    was_on: str
    node: str
    message: str = ""


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod finds no node: the message of its last attempt, the nodes for each reason, and what would help."""

    pod: str
    message: str
    reasons: dict[str, int] = {}
    remedies: tuple[Remedy, ...] = ()


class Copies(msgspec.Struct, frozen=True, kw_only=True):
    """How many copies fit, the workload itself included, of those that were tried; and why the next one does not."""

    fit: int
    tried: int
    message: str = ""
    reasons: dict[str, int] = {}


class FitResult(Answer, frozen=True, kw_only=True):
    """Whether a workload fits: each of its pods has a node.

    `pods` are those of the workload, `evicted` those that make room for it. `obstacle` is that of the first pod without
    a node. `copies` is only there if copies were asked for.
    """

    workload: tuple[str, ...]
    fits: bool
    pods: tuple[PodPlace, ...]
    evicted: tuple[DisplacedPod, ...] = ()
    obstacle: Obstacle | None = None
    copies: Copies | None = None
