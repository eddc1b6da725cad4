"""What a plugin may suggest that a pod which it rejects could do without: changes of it, or of its template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from kframework.framework.claim_suggestions import DropClause, DropConstraint, LowerCount, TolerateDevices
from kframework.framework.suggestions import (
    DeletePod,
    FreeResource,
    PodChange,
    RemoveLabel,
    RemoveTaint,
    SetLabel,
    Suggestion,
    Uncordon,
    amount_of,
    written,
)
from kframework.objects import (
    Container,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    Resources,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from kframework.objects.label_selectors import SelectorError, label_selector
from kframework.objects.ports import HostPort
from kframework.objects.quantity import Quantity, nano
from kframework.objects.requests import fit_requests

if TYPE_CHECKING:
    from kframework.state.pods import PodInfo

T = TypeVar("T")
_Terms = TypeVar("_Terms", PodAffinity, PodAntiAffinity)


class RemoveGate(PodChange, frozen=True, tag="removeGate"):
    """Take a scheduling gate off the pod."""

    gate: str

    @property
    def text(self) -> str:
        return f"remove the scheduling gate {self.gate}"

    def on_pod(self, pod: Pod) -> Pod:
        return _spec(pod, scheduling_gates=tuple(gate for gate in pod.spec.scheduling_gates if gate.name != self.gate))


class Tolerate(PodChange, frozen=True, tag="tolerate"):
    """Let the pod tolerate a taint."""

    taint: Taint

    @property
    def text(self) -> str:
        return f"let the pod tolerate {written(self.taint)}"

    def on_pod(self, pod: Pod) -> Pod:
        taint = self.taint
        operator = "Equal" if taint.value else "Exists"
        toleration = Toleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)
        return _spec(pod, tolerations=(*pod.spec.tolerations, toleration))


class LowerRequest(PodChange, frozen=True, tag="lowerRequest"):
    """Let the pod ask for so much less of a resource: milli-CPU of `cpu`, whole units (bytes) of all else."""

    resource: str
    amount: int
    to: int

    @property
    def text(self) -> str:
        if not self.to:
            return f"drop the pod's request for {self.resource}"
        asked, to = (amount_of(self.resource, amount) for amount in (self.to + self.amount, self.to))
        return f"lower the pod's {self.resource} request from {asked} to {to}"

    def with_amount(self, amount: int) -> LowerRequest:
        return replace(self, amount=amount, to=self.to + self.amount - amount)

    def on_pod(self, pod: Pod) -> Pod:
        return replace(pod, spec=_lowered(pod.spec, self.resource, self.to))


class DropHostPort(PodChange, frozen=True, tag="dropHostPort"):
    """Let the pod do without a port of its node."""

    port: int
    protocol: str
    ip: str

    @property
    def text(self) -> str:
        return f"drop the pod's host port {self.port}/{self.protocol}"

    def on_pod(self, pod: Pod) -> Pod:
        return _spec(
            pod,
            containers=tuple(map(self._without, pod.spec.containers)),
            init_containers=tuple(map(self._without, pod.spec.init_containers)),
        )

    def _without(self, container: Container) -> Container:
        ports = tuple(
            replace(port, host_port=0)
            if (port.host_port, port.protocol or "TCP", port.host_ip or self.ip) == (self.port, self.protocol, self.ip)
            else port
            for port in container.ports
        )
        return replace(container, ports=ports)

    @classmethod
    def of(cls, port: HostPort) -> DropHostPort:
        """Make the change for a port that the pod wants."""
        return cls(port.port, port.protocol, port.ip)


class DropNodeSelector(PodChange, frozen=True, tag="dropNodeSelector"):
    """Take a label out of the pod's nodeSelector."""

    key: str
    value: str

    @property
    def text(self) -> str:
        return f"drop {self.key}={self.value} from the pod's nodeSelector"

    def on_pod(self, pod: Pod) -> Pod:
        return _spec(pod, node_selector={k: value for k, value in pod.spec.node_selector.items() if k != self.key})


class DropNodeRequirement(PodChange, frozen=True, tag="dropNodeRequirement"):
    """Take a requirement, on a label or on the name of the node, out of the pod's required node affinity."""

    requirement: NodeSelectorRequirement

    @property
    def text(self) -> str:
        required = self.requirement
        values = f" [{', '.join(required.values)}]" if required.values else ""
        return f"drop {required.key} {required.operator}{values} from the pod's node affinity"

    def on_pod(self, pod: Pod) -> Pod:
        affinity = pod.spec.affinity
        if affinity is None or affinity.node_affinity is None:
            return pod
        selector = affinity.node_affinity.required_during_scheduling_ignored_during_execution
        terms = tuple(map(self._without, selector.node_selector_terms)) if selector is not None else ()
        # A term that requires nothing matches nothing; meant is that any node will do.
        free = any(not term.match_expressions and not term.match_fields for term in terms)
        required = None if free or not terms else NodeSelector(node_selector_terms=terms)
        node_affinity = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=required)
        return _spec(pod, affinity=replace(affinity, node_affinity=node_affinity))

    def _without(self, term: NodeSelectorTerm) -> NodeSelectorTerm:
        return NodeSelectorTerm(
            match_expressions=_without(term.match_expressions, self.requirement),
            match_fields=_without(term.match_fields, self.requirement),
        )


class DropPodTerm(PodChange, frozen=True, tag="dropPodTerm"):
    """Take a required term out of the pod's affinity to other pods, or out of its anti-affinity (`anti`)."""

    term: PodAffinityTerm
    anti: bool

    @property
    def text(self) -> str:
        kind = "anti-affinity" if self.anti else "affinity"
        return f"drop the pod's {kind} to {_pods(self.term)} by {self.term.topology_key}"

    def on_pod(self, pod: Pod) -> Pod:
        affinity = pod.spec.affinity
        if affinity is None:
            return pod
        if self.anti:
            return _spec(pod, affinity=replace(affinity, pod_anti_affinity=self._less(affinity.pod_anti_affinity)))
        return _spec(pod, affinity=replace(affinity, pod_affinity=self._less(affinity.pod_affinity)))

    def _less(self, affinity: _Terms | None) -> _Terms | None:
        if affinity is None:
            return None
        required = affinity.required_during_scheduling_ignored_during_execution
        return replace(affinity, required_during_scheduling_ignored_during_execution=_without(required, self.term))


class RaiseMaxSkew(PodChange, frozen=True, tag="raiseMaxSkew"):
    """Let the pods that a spread constraint is about be spread so much less evenly."""

    constraint: TopologySpreadConstraint
    amount: int

    @property
    def text(self) -> str:
        skew, key = self.constraint.max_skew, self.constraint.topology_key
        return f"raise maxSkew of the pod's spread over {key} from {skew} to {skew + self.amount}"

    def on_pod(self, pod: Pod) -> Pod:
        raised = replace(self.constraint, max_skew=self.constraint.max_skew + self.amount)
        constraints = (raised if each == self.constraint else each for each in pod.spec.topology_spread_constraints)
        return _spec(pod, topology_spread_constraints=tuple(constraints))


class DropSpread(PodChange, frozen=True, tag="dropSpread"):
    """Take a spread constraint away from the pod."""

    constraint: TopologySpreadConstraint

    @property
    def text(self) -> str:
        return f"drop the pod's spread over {self.constraint.topology_key}"

    def on_pod(self, pod: Pod) -> Pod:
        left = _without(pod.spec.topology_spread_constraints, self.constraint)
        return _spec(pod, topology_spread_constraints=left)


class DropVolume(PodChange, frozen=True, tag="dropVolume"):
    """Let the pod do without a volume."""

    volume: str
    claim: str

    @property
    def text(self) -> str:
        claim = f" (claim {self.claim})" if self.claim else ""
        return f"drop the pod's volume {self.volume}{claim}"

    def on_pod(self, pod: Pod) -> Pod:
        return _spec(pod, volumes=tuple(volume for volume in pod.spec.volumes if volume.name != self.volume))

    @classmethod
    def of(cls, volume: Volume) -> DropVolume:
        """Make the change for a volume of the pod."""
        claim = volume.persistent_volume_claim
        return cls(volume.name, claim.claim_name if claim is not None else "")


def drop_volumes(pod: PodInfo) -> Iterator[Suggestion]:
    """Suggest that the pod do without one of its volumes, or without all."""
    volumes = [DropVolume.of(volume) for volume in pod.spec.volumes]
    yield from volumes
    yield tuple(volumes)


class DropClaim(PodChange, frozen=True, tag="dropClaim"):
    """Let the pod do without a claim to devices, which it knows by this name."""

    name: str

    @property
    def text(self) -> str:
        return f"drop the pod's claim {self.name}"

    def on_pod(self, pod: Pod) -> Pod:
        return _spec(pod, resource_claims=tuple(each for each in pod.spec.resource_claims if each.name != self.name))


#: Every kind of change, of the pod or not; the one that explanations show first, first.
AnyChange = (
    RemoveGate
    | Uncordon
    | RemoveTaint
    | SetLabel
    | RemoveLabel
    | FreeResource
    | DeletePod
    | Tolerate
    | LowerRequest
    | DropHostPort
    | DropNodeSelector
    | DropNodeRequirement
    | DropPodTerm
    | RaiseMaxSkew
    | DropSpread
    | DropVolume
    | TolerateDevices
    | LowerCount
    | DropClause
    | DropConstraint
    | DropClaim
)


# -- requests ------------------------------------------------------------------------------------------------------


def _lowered(spec: PodSpec, resource: str, to: int) -> PodSpec:
    """Lower what a pod asks for of a resource: where it is stated for the whole pod, else of the largest containers."""
    unit = 10**6 if resource == "cpu" else 10**9
    target = max(to * unit - nano(spec.overhead.get(resource, 0)), 0)
    if spec.resources is not None and resource in spec.resources.requests:
        return replace(spec, resources=_asking(spec.resources, resource, target))
    containers, init_containers = list(spec.containers), list(spec.init_containers)
    for several in (containers, init_containers):
        for place in sorted(range(len(several)), key=lambda place: -_asked(several[place], resource)):
            excess = fit_requests(spec).get(resource, 0) * unit - to * unit
            if excess <= 0:
                return spec
            container = several[place]
            less = max(_asked(container, resource) - excess, 0)
            several[place] = replace(container, resources=_asking(container.resources, resource, less))
            spec = replace(spec, containers=tuple(containers), init_containers=tuple(init_containers))
    return spec


def _asked(container: Container, resource: str) -> int:
    return nano(container.resources.requests.get(resource, 0))


def _asking(resources: Resources, resource: str, amount: int) -> Resources:
    """Let a container ask for this many nanos; a limit that must equal the request follows."""
    lowered = {resource: str(Quantity(amount))}
    requests = {**resources.requests, **lowered} if resource in resources.requests else resources.requests
    bound_to_limit = resource in resources.limits and resource not in ("cpu", "memory", "ephemeral-storage")
    return Resources(requests=requests, limits={**resources.limits, **lowered} if bound_to_limit else resources.limits)


# -- what changes share --------------------------------------------------------------------------------------------


def _pods(term: PodAffinityTerm) -> str:
    try:
        return str(label_selector(term.label_selector)) or "pods"
    except SelectorError:
        return "pods"


def _without(several: tuple[T, ...], gone: T) -> tuple[T, ...]:
    return tuple(each for each in several if each != gone)


def _spec(pod: Pod, **fields: object) -> Pod:
    return replace(pod, spec=replace(pod.spec, **fields))
