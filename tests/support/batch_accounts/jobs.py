"""Jobs and tasks as their objects have them, and what can be counted of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kframework_batch.job import ROLE
from kframework_batch.objects import PodGroup
from kframework_batch.resource import Resource

from kframework.objects import Pod
from kframework.objects.requests import on_node_requests

ROOM = ("Allocated", "Binding", "Bound", "Running")
READY = (*ROOM, "Succeeded")
ENDED = ("Succeeded", "Failed")
MAY_GO = ("Bound", "Running")


@dataclass(eq=False)
class Job:
    """A pod group as its object has it; `group` is None where there is none."""

    uid: str
    group: PodGroup | None
    queue: str = ""
    priority: int = 0
    phase: str = ""
    minimum: int = 0
    roles: Mapping[str, int] = field(default_factory=dict)
    claims: Resource | None = None
    created: str = ""
    message: str = ""
    tasks: list[Task] = field(default_factory=list)

    def count(self, *statuses: str) -> int:
        return sum(task.status in statuses for task in self.tasks)

    def sum(self, *statuses: str) -> Resource:
        return total(task.request for task in self.tasks if task.status in statuses)

    @property
    def unneeding(self) -> int:
        return sum(task.status == "Pending" and not task.request for task in self.tasks)

    @property
    def had(self) -> int:
        return self.count(*READY, "Pipelined") + self.unneeding

    @property
    def minds_roles(self) -> bool:
        return bool(self.roles) and self.minimum >= sum(self.roles.values())

    def is_complete(self, *more: str) -> bool:
        """Return whether enough tasks have room, or are of one of `more` statuses."""
        counted = [t for t in self.tasks if t.status in (*READY, *more) or (t.status == "Pending" and not t.request)]
        of_role = Counter(task.role for task in counted)
        roles = not self.minds_roles or all(of_role[role] >= least for role, least in self.roles.items())
        return len(counted) >= self.minimum and roles

    @property
    def is_broken(self) -> bool:
        return bool(nonzero(self.sum(*ROOM))) and not self.is_complete()

    @property
    def starves(self) -> bool:
        got = self.count(*READY, "Pipelined")
        return got < self.minimum and got < len(self.tasks)

    @property
    def minimum_claim(self) -> Resource:
        return Resource((name, amount) for name, amount in (self.claims or {}).items() if name != "pods")

    def without_gated(self, claim: Resource) -> Resource:
        gated = total(task.request for task in self.tasks if task.gated and task.status == "Pending")
        return Resource((name, max(amount - gated.get(name, 0), 0)) for name, amount in claim.items())

    @property
    def still_claimed(self) -> Resource:
        if self.phase != "Inqueue" and not (self.phase == "Running" and self.count(*ROOM) >= self.minimum):
            return Resource()
        return self.without_gated(self.minimum_claim.minus(self.sum(*ROOM)).positive().at_most(self.minimum_claim))


@dataclass(eq=False)
class Task:
    """A pod of ours; `node` is where it is, or has room."""

    pod: Pod
    job: Job
    status: str
    node: str

    def __post_init__(self) -> None:
        metadata, spec = self.pod.metadata, self.pod.spec
        self.uid = metadata.uid
        self.key = f"{metadata.namespace}/{metadata.name}"
        self.name = metadata.name
        self.role = metadata.annotations.get(ROLE, "")
        self.priority = spec.priority or 0
        self.gated = bool(spec.scheduling_gates)
        self.request = nonzero(on_node_requests(self.pod))
        #: Taken off its node in this session; what it was before.
        self.evicted = False
        self.before = self.status
        #: Whether it was going when the session began.
        self.leaves = self.status == "Releasing"

    @property
    def may_go(self) -> bool:
        spares = self.pod.metadata.annotations.get("volcano.sh/preemptable") != "false"
        return self.status in MAY_GO and spares


def nonzero(amounts: Mapping[str, int]) -> Resource:
    return Resource((name, amount) for name, amount in amounts.items() if amount)


def total(requests: Iterable[Mapping[str, int]]) -> Resource:
    amount = Resource()
    for request in requests:
        amount.add(request)
    return amount


def part(held: float, whole: float) -> float:
    return (1.0 if held else 0.0) if not whole else held / whole
