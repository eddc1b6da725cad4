"""What an explanation consists of: plain data, the same in Python, as JSON and behind the text."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from kframework.core.cycle.records import Binding, Decision
from kframework.core.sources import OutsideData
from kframework.explain.remedies.remedies import Remedy
from kframework.observe.web.shown import EngineExplanation


class State(StrEnum):
    """Where a pod is on its way to a node."""

    GATED = "gated"
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    #: It is being tried, right now.
    IN_FLIGHT = "in flight"
    #: It has its node, and waits for a Permit plugin.
    PERMIT = "waiting on permit"
    BINDING = "binding"
    BOUND = "bound"
    #: It is to be deleted, and will not be scheduled.
    TERMINATING = "terminating"
    #: It has left while it was looked at.
    GONE = "gone"


class Rejection(msgspec.Struct, frozen=True):
    """One reason of one plugin.

    `nodes` is the number of nodes against which the plugin gives it, `first` those that no plugin rejects before it:
    these are what the pod's condition counts. On the last, `alone`, nothing else stands against the pod. `examples` are
    names of nodes, such ones first. `preemptible`: the reason may go when less important pods go.
    """

    plugin: str
    reason: str
    nodes: int
    first: int
    alone: int
    examples: tuple[str, ...]
    preemptible: bool = False


class Details(msgspec.Struct, frozen=True):
    """What is behind a plugin's rejection of one node, line by line; what belongs to the line before is indented."""

    plugin: str
    node: str
    lines: tuple[str, ...]


class Score(msgspec.Struct, frozen=True):
    """What one plugin makes of one node: `raw` as it answered, `normalized` to 0..100, and that times its weight."""

    plugin: str
    weight: int
    raw: int
    normalized: int
    weighted: int


class NodeScore(msgspec.Struct, frozen=True):
    """A feasible node, its place among all of them (from 1; equals share it), its total and what that consists of.

    The only feasible node has no scores.
    """

    node: str
    place: int
    total: int
    scores: tuple[Score, ...]


class KeptRoom(msgspec.Struct, frozen=True):
    """A node on which room is kept for pods nominated to it."""

    node: str
    pods: tuple[str, ...]


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """What the plugins say of the pod now, on all nodes; of a pod on a node, as if it were not there.

    `message` is what the condition would say, but for what PostFilter adds to it; it is empty if nodes are feasible.
    `rejections` are the reasons that weigh most, and `reasons_left_out` how many there are beside them; `details` is
    what is behind those of plugins that tell (`explain`), on the nodes where least stands in the pod's way.
    `enough` is how many feasible nodes an attempt looks for. `top` are the best nodes, and the pod's own if it is on
    one; `margin` is what the best is ahead of the next by, `ties` the number of nodes that are best, `decided_by` the
    plugin that puts the best ahead of the next most. `fault` is what a plugin did wrong.
    """

    nodes: int
    feasible: int
    enough: int
    message: str = ""
    reasons: Mapping[str, int] = {}
    rejections: tuple[Rejection, ...] = msgspec.field(default=(), name="objections")
    reasons_left_out: int = 0
    details: tuple[Details, ...] = ()
    top: tuple[NodeScore, ...] = ()
    ties: int = 0
    margin: int = 0
    decided_by: str = ""
    kept_room: tuple[KeptRoom, ...] = ()
    fault: str = ""


class Preemption(msgspec.Struct, frozen=True, kw_only=True):
    """What preemption would come to now: the node and its victims, or `why` not.

    `under_way`: the pod has preempted them already, and they have not left the node yet. `tried` nodes were looked at,
    on `candidates` of them it would help. `reasons` counts what would stand against the others even with all less
    important pods gone.
    """

    node: str = ""
    victims: tuple[str, ...] = ()
    broken_budgets: int = 0
    why: str = ""
    under_way: bool = False
    tried: int = 0
    candidates: int = 0
    reasons: Mapping[str, int] = {}


class Waker(msgspec.Struct, frozen=True):
    """What wakes a pod that this plugin holds back: events, as `resource: actions`.

    The plugin may look at each of them and decide otherwise.
    """

    plugin: str
    events: Mapping[str, tuple[str, ...]]


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What the pod waits for; moments are seconds since 1970.

    `until` is when its backoff or its time on Permit ends, `retried_at` when it is tried though nothing has happened.
    `held_by` are the plugins that hold it back: they rejected it, gate it, or have not permitted it yet; `why` is what
    the gate says. `queued_at` is when it was put where it is, `active` counts the active pods if it is one of them.
    `hook` is what its binding waits for, of the plugins that hold it back, since `queued_at`.
    """

    queued_at: float | None = None
    until: float | None = None
    retried_at: float | None = None
    held_by: tuple[str, ...] = ()
    why: str = ""
    wakers: tuple[Waker, ...] = ()
    active: int = 0
    hook: str = ""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One pod, explained: what was decided last (`then`), what the plugins say `now`, and what would help.

    `at` is when this was found out, in seconds since 1970. `requests` are what the pod asks for, as in a manifest,
    `claims` the names by which it knows its claims to devices.
    `node` is where it is or is about to be, `nominated` where room is kept for it. `then` and `binding` are the records
    of its last attempt, if that is remembered; `condition` is what the pod's own condition says, while it is pending.
    `outside` is what the profile's plugins go by beside the cluster.
    """

    pod: str
    uid: str
    profile: str
    priority: int = 0
    requests: Mapping[str, str] = {}
    claims: tuple[str, ...] = ()
    at: float
    state: State
    node: str = ""
    nominated: str = ""
    attempts: int = 0
    then: Decision | None = None
    binding: Binding | None = None
    condition: str = ""
    now: Assessment
    preemption: Preemption | None = None
    waiting: Waiting | None = None
    help: tuple[Remedy, ...] = ()
    outside: tuple[OutsideData, ...] = ()
    notes: tuple[str, ...] = ()


class _Kind(msgspec.Struct):
    """What an answer says of whose explanation it is."""

    engine: str = ""


def read(answer: bytes) -> Explanation | EngineExplanation:
    """Read an explanation of either kind from JSON; msgspec.DecodeError for what is none."""
    if msgspec.json.decode(answer, type=_Kind).engine:
        return msgspec.json.decode(answer, type=EngineExplanation)
    return msgspec.json.decode(answer, type=Explanation)
