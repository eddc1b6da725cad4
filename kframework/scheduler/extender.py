"""One extender: an external service that filters, scores, preempts or binds along with the plugins.

This module decides when it is called and interprets its answers; `kframework.scheduler.extender_http` does HTTP.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from kframework.config.models import ExtenderSettings
from kframework.core.cycle.suspendable import ExtenderError, Filtered
from kframework.core.runtime.profiles import EXTENDER
from kframework.framework.answers import Candidate
from kframework.objects import PodSpec
from kframework.objects.codec import describe_decode_error
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.scheduler.extender_wire import (
    decode_binding_result,
    decode_filter_result,
    decode_host_priorities,
    decode_preemption_result,
    encode_binding_args,
    encode_extender_args,
    encode_preemption_args,
)
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import MAX_SCORE
from kframework.values.status import Code, Status

T = TypeVar("T")

#: Extenders score from 0 to 10 (kube-scheduler does not check it), plugins up to 100.
_SCORE_FACTOR = MAX_SCORE // 10


class Extender:
    """An extender of the configuration; verbs left empty are never called."""

    def __init__(self, settings: ExtenderSettings, transport: HttpExtenderTransport) -> None:
        self.settings = settings
        self.transport: HttpExtenderTransport = transport
        self._managed = frozenset(resource.name for resource in settings.managed_resources)

    def is_interested(self, pod: PodInfo) -> bool:
        """Return whether the pod requests a resource that the extender manages; one that manages none takes all."""
        return not self._managed or pod.template.cached((EXTENDER, self._managed), self._requests_managed)

    def _requests_managed(self, spec: PodSpec) -> bool:
        containers = (*spec.containers, *spec.init_containers)
        return any(
            resource in self._managed
            for container in containers
            for resource in (*container.resources.requests, *container.resources.limits)
        )

    async def filter(self, pod: PendingPod, nodes: Sequence[NodeInfo]) -> Filtered:
        """Return which of these nodes the extender accepts; raises ExtenderError."""
        names_only = self.settings.node_cache_capable
        question = encode_extender_args(pod, nodes, names_only=names_only)
        read = functools.partial(decode_filter_result, names_only=names_only)
        result = await self._send(self.settings.filter_verb, question, read)
        if result.error:
            raise ExtenderError(result.error)
        by_name = {node.name: node for node in nodes}
        for name in result.passing:
            if name not in by_name:
                claim = f'claims a filtered node "{name}" which is not found in the input node list'
                raise ExtenderError(f'extender "{self.settings.address}" {claim}')
        failed = {name: Status(Code.UNSCHEDULABLE, (reason,)) for name, reason in result.failed.items()}
        for name, reason in result.unresolvable.items():
            failed[name] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))
        return Filtered([by_name[name] for name in dict.fromkeys(result.passing)], failed)

    async def prioritize(self, pod: PendingPod, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        """Return the scores to add to the totals of these nodes, by name; raises ExtenderError."""
        settings = self.settings
        question = encode_extender_args(pod, nodes, names_only=settings.node_cache_capable)
        added: dict[str, int] = {}
        for host, score in await self._send(settings.prioritize_verb, question, decode_host_priorities):
            added[host] = added.get(host, 0) + score * settings.weight * _SCORE_FACTOR
        return added

    async def preempt(self, pod: PendingPod, candidates: Sequence[Candidate], nodes: NodeTable) -> list[Candidate]:
        """Return the candidates that the extender accepts, with its victims; raises ExtenderError."""
        settings = self.settings
        question = encode_preemption_args(pod, candidates, names_only=settings.node_cache_capable)
        answer = await self._send(settings.preempt_verb, question, decode_preemption_result)
        named = [self._candidate(nodes, name, uids, violations) for name, (uids, violations) in answer.items()]
        for candidate in named:
            if not candidate.victims and not settings.ignorable:
                raise ExtenderError(f'expected at least one victim pod on node "{candidate.node}"')
        return [candidate for candidate in named if candidate.victims]

    def _candidate(self, nodes: NodeTable, name: str, uids: Sequence[str], violations: int) -> Candidate:
        node = nodes.find(name)
        if node is None:
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        pods = {pod.uid: pod for pod in node.pods}
        for uid in uids:
            if uid not in pods:
                who = "&{" + uid + "}"  # as Go prints the struct that holds it
                claim = f"claims to preempt pod (UID: {who}) on node: {name}, but the pod is not found on that node"
                raise ExtenderError(f"extender: {self.settings.address} {claim}")
        return Candidate(name, tuple(pods[uid] for uid in uids), violations)

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        error = await self._send(self.settings.bind_verb, encode_binding_args(pod, node_name), decode_binding_result)
        if error:
            raise ExtenderError(error)

    async def _send(self, verb: str, question: bytes, read: Callable[[bytes], T]) -> T:
        answer = await self.transport.send(verb, question)
        try:
            return read(answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problem = describe_decode_error(error)
            raise ExtenderError(
                f'extender "{self.settings.address}": cannot decode its answer to {verb}: {problem}'
            ) from error
