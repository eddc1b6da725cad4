"""Templates of pods: specs without the parts of single pods, and what is derived from them, once for all their pods."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from kframework.objects import (
    Affinity,
    NodeSelector,
    NodeSelectorRequirement,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    Volume,
)
from kframework.objects.identity import IdentityDict
from kframework.objects.requests import (
    Usage,
    fit_requests,
    max_of_totals,
    non_zero_requests,
    on_node_requests,
    scoring_requests,
)
from kframework.state.host_ports import HostPort, host_ports
from kframework.state.pod_counts import LabelClass

T = TypeVar("T")

#: Pairs of resource name and amount: milli-CPU for `cpu`, whole units (bytes) for all else.
Requests = tuple[tuple[str, int], ...]

#: The namespace of a pod, and the values of some of its labels.
SpecContext = tuple[str | None, ...]

_encode = msgspec.json.Encoder(order="deterministic").encode


class PodTemplate:
    """A pod spec without the parts that differ between pods, with derived values computed once.

    Left out are nodeName, hostname, the group, names of projected volumes and claims, and the node that a DaemonSet pod
    is pinned to; these stay on the pod. `fit` are the requests (pod-level resources included), `scoring` those that
    NodeResourcesFit scores, `on_node` and `non_zero` (cpu, memory) the amounts added to a node, `host_ports` the ports
    used there. `context` is what interpreting the spec depends on: namespace and labels of the pod, if any.
    """

    __slots__ = (
        *("__weakref__", "_memo", "context", "fit", "has_terms"),
        *("host_ports", "non_zero", "on_node", "profile_name", "scoring", "spec"),
    )

    def __init__(self, spec: PodSpec, context: SpecContext = ()) -> None:
        pod = Pod(spec=spec)
        self.spec: PodSpec = spec
        self.profile_name: str = spec.profile_name
        self.context: SpecContext = context
        self.fit: Requests = tuple(fit_requests(spec).items())
        self.scoring: Mapping[str, int] = scoring_requests(spec)
        self.on_node: Requests = tuple(on_node_requests(pod).items())
        self.non_zero: tuple[int, int] = non_zero_requests(pod)
        self.host_ports: tuple[HostPort, ...] = host_ports(spec)
        #: Whether it has inter-pod affinity or anti-affinity, which affects other pods.
        self.has_terms: bool = _has_terms(spec)
        self._memo: dict[Hashable, object] = {}

    def cached(self, key: Hashable, compute: Callable[[PodSpec], T]) -> T:
        """Compute a value from the spec on the first call and cache it for all pods of this template."""
        memo: dict[Hashable, T] = self._memo  # type: ignore[assignment]  # the value was computed by its key
        if key not in memo:
            memo[key] = compute(self.spec)
        return memo[key]

    @property
    def content_hash(self) -> int:
        return self.cached("content_hash", lambda spec: hash((_encode(spec), self.context)))

    @property
    def nbytes(self) -> int:
        """The approximate memory of the template, in bytes: objects take eight times their text."""
        return self.cached("nbytes", lambda spec: 4096 + 8 * len(_encode(spec)))


class PodKind:
    """Pods to be scheduled that share template, labels, namespace, owners and group.

    `signature` is their last signature, of the profile `signed_by`, when `ClusterState.epoch` was `signed_at`.
    """

    __slots__ = ("__weakref__", "signature", "signed_at", "signed_by")

    def __init__(self) -> None:
        self.signature: object = None
        self.signed_by: object = None
        self.signed_at: int = -1


class TemplateInterner:
    """The templates, label classes and kinds in use; each lives as long as a pod that has it."""

    def __init__(self, usage: Usage = max_of_totals) -> None:
        self.usage: Usage = usage
        self._templates: WeakValueDictionary[tuple[bytes | str | None, ...], PodTemplate] = WeakValueDictionary()
        self._classes: WeakValueDictionary[tuple[str, frozenset[tuple[str, str]], bool], LabelClass] = (
            WeakValueDictionary()
        )
        self._kinds: WeakValueDictionary[tuple[PodTemplate, LabelClass, tuple[OwnerReference, ...], str], PodKind] = (
            WeakValueDictionary()
        )
        #: By the identity of a spec, and of labels: in memory, pods share these.
        self._template_of: IdentityDict[PodSpec, PodTemplate] = IdentityDict()
        self._class_of: IdentityDict[Mapping[str, str], LabelClass] = IdentityDict()

    def template(self, spec: PodSpec, metadata: ObjectMeta, candidate: PodTemplate | None = None) -> PodTemplate:
        """Return the shared template of all specs that differ only in parts of the single pod.

        If interpreting a spec depends on namespace and labels, only pods that have these in common share a template, as
        derived values are stored with it. `candidate` is compared first, before the lookup.
        """
        known = self._template_of.get(spec)
        if known is not None and not known.context:
            return known
        context = _spec_context(spec, metadata)
        if known is not None and known.context == context:
            return known
        template = self._find_template(_shared_spec(spec), context, candidate)
        self._template_of.put(spec, template)
        return template

    def _find_template(self, shared: PodSpec, context: SpecContext, candidate: PodTemplate | None) -> PodTemplate:
        if candidate is not None and candidate.context == context and candidate.spec == shared:
            return candidate
        content = (_encode(shared), *context)
        template = self._templates.get(content)
        if template is None:
            template = self._templates[content] = PodTemplate(shared, context)
        return template

    def label_class(self, namespace: str, labels: Mapping[str, str], terminating: bool) -> LabelClass:
        known = self._class_of.get(labels)
        if known is not None and known.namespace == namespace and known.terminating == terminating:
            return known
        key = (namespace, frozenset(labels.items()), terminating)
        result = self._classes.get(key)
        if result is None:
            result = self._classes[key] = LabelClass(namespace, labels, terminating)
        self._class_of.put(labels, result)
        return result

    def kind(
        self, template: PodTemplate, label_class: LabelClass, owners: tuple[OwnerReference, ...], group: str
    ) -> PodKind:
        key = (template, label_class, owners, group)
        result = self._kinds.get(key)
        if result is None:
            result = self._kinds[key] = PodKind()
        return result


def _has_terms(spec: PodSpec) -> bool:
    return spec.affinity is not None and bool(spec.affinity.pod_affinity or spec.affinity.pod_anti_affinity)


def _spec_context(spec: PodSpec, metadata: ObjectMeta) -> SpecContext:
    """Return what interpreting a spec depends on: terms and constraints refer to the pod's namespace and labels."""
    constraints = spec.topology_spread_constraints
    if not constraints and not _has_terms(spec):
        return ()
    own = (metadata.labels.get(key) for constraint in constraints for key in constraint.match_label_keys)
    return (metadata.namespace, *own)


def _shared_spec(spec: PodSpec) -> PodSpec:
    if not (spec.node_name or spec.hostname or spec.volumes or spec.affinity or spec.scheduling_group):
        return spec
    return msgspec.structs.replace(
        spec,
        node_name="",
        hostname="",
        volumes=tuple(map(_without_own_name, spec.volumes)),
        affinity=_without_pinned_node(spec.affinity),
        scheduling_group=None,
    )


def _without_own_name(volume: Volume) -> Volume:
    """Drop the name of a projected volume (made up for each pod) and of a claim."""
    if volume.projected is not None:
        return msgspec.structs.replace(volume, name="")
    if volume.persistent_volume_claim is not None:
        claim = msgspec.structs.replace(volume.persistent_volume_claim, claim_name="")
        return msgspec.structs.replace(volume, persistent_volume_claim=claim)
    return volume


def _without_pinned_node(affinity: Affinity | None) -> Affinity | None:
    """Drop the name of the node to which the DaemonSet controller pins a pod."""
    if affinity is None or affinity.node_affinity is None:
        return affinity
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    if required is None or not any(term.match_fields for term in required.node_selector_terms):
        return affinity
    terms = tuple(
        msgspec.structs.replace(term, match_fields=tuple(_without_node_name(field) for field in term.match_fields))
        for term in required.node_selector_terms
    )
    node_affinity = msgspec.structs.replace(
        affinity.node_affinity,
        required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=terms),
    )
    return msgspec.structs.replace(affinity, node_affinity=node_affinity)


def _without_node_name(field: NodeSelectorRequirement) -> NodeSelectorRequirement:
    if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
        return msgspec.structs.replace(field, values=("",))
    return field
