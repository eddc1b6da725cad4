"""All extenders of a scheduler, called in kube-scheduler's order: ignorable ones come last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from kframework.core.cycle.suspendable import ExtenderClient, ExtenderError, Filtered
from kframework.framework.answers import Candidate
from kframework.scheduler.extender import Extender
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.status import Code, Skip, Status

_log = logging.getLogger(__name__)

#: The limit of what extenders add to one node's total; beyond it kube-scheduler's sums would overflow.
_MAX_ADDED_SCORE = 1 << 62


class Extenders(ExtenderClient):
    """The extenders in call order; errors of an ignorable one are logged and skipped."""

    def __init__(self, extenders: Iterable[Extender] = ()) -> None:
        self._all = tuple(sorted(extenders, key=lambda extender: extender.settings.ignorable))
        self._filtering = tuple(extender for extender in self._all if extender.settings.filter_verb)
        self._prioritizing = tuple(extender for extender in self._all if extender.settings.prioritize_verb)
        self._preempting = tuple(extender for extender in self._all if extender.settings.preempt_verb)
        self._binding = tuple(extender for extender in self._all if extender.settings.bind_verb)

    async def start(self) -> None:
        for extender in self._all:
            await extender.transport.start()

    async def close(self) -> None:
        for extender in self._all:
            await extender.transport.close()

    @property
    def needs_scoring(self) -> bool:
        return bool(self._filtering or self._prioritizing)

    async def filter(self, pod: PendingPod, nodes: Sequence[NodeInfo]) -> Filtered:
        failed: dict[str, Status] = {}
        for extender in _interested_extenders(self._filtering, pod):
            if not nodes:
                break
            try:
                answer = await extender.filter(pod, nodes)
            except ExtenderError as error:
                _skip(extender, error)
                continue
            failed.update(answer.failed)
            nodes = answer.nodes
        return Filtered(nodes, failed)

    async def prioritize(self, pod: PendingPod, nodes: Sequence[NodeInfo]) -> Mapping[str, int]:
        interested = _interested_extenders(self._prioritizing, pod)
        answers = await asyncio.gather(
            *(extender.prioritize(pod, nodes) for extender in interested), return_exceptions=True
        )
        added: dict[str, int] = {}
        for extender, answer in zip(interested, answers, strict=True):
            if isinstance(answer, ExtenderError):
                _log.info("extender %s: no scores for pod %s: %s", extender.settings.address, pod.key, answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                for name, score in answer.items():
                    added[name] = max(-_MAX_ADDED_SCORE, min(_MAX_ADDED_SCORE, added.get(name, 0) + score))
        return added

    async def preempt(self, pod: PendingPod, candidates: Sequence[Candidate], nodes: NodeTable) -> Sequence[Candidate]:
        for extender in _interested_extenders(self._preempting, pod):
            if not candidates:
                break
            try:
                candidates = await extender.preempt(pod, candidates, nodes)
            except ExtenderError as error:
                _skip(extender, error)
        return candidates

    async def bind(self, pod: PodInfo, node_name: str) -> Status | None:
        """Bind the pod by an extender; Skip if none does, so that the Bind plugins run."""
        for extender in _interested_extenders(self._binding, pod):
            try:
                await extender.bind(pod, node_name)
            except ExtenderError as error:
                if not extender.settings.ignorable:
                    return Status(Code.ERROR, (str(error),))
                _skip(extender, error)
            else:
                return None
        return Skip

    def __len__(self) -> int:
        return len(self._all)


def _interested_extenders(extenders: Iterable[Extender], pod: PodInfo) -> list[Extender]:
    return [extender for extender in extenders if extender.is_interested(pod)]


def _skip(extender: Extender, error: ExtenderError) -> None:
    """Log the error of an ignorable extender; raise that of any other."""
    if not extender.settings.ignorable:
        raise error
    _log.warning("skipping ignorable extender %s: %s", extender.settings.address, error)
