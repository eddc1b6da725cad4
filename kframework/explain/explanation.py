"""The data of an explanation: in Python, as JSON, and the source of the text."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from kframework.core.cycle.records import Binding, Decision
from kframework.core.sources import SourceStatus
from kframework.explain.remedies.remedies import Remedy
from kframework.observe.web.view import EngineExplanation
from kframework.values.answer import Answer


class State(StrEnum):
    """The state of a pod on its way to a node."""

    GATED = "gated"
    #: Its PodGroup does not exist.
    INCOMPLETE = "incomplete"
    #: It waits for the end of its group's scheduling cycle.
    PENDING = "pending"
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    #: It is being tried, right now.
    IN_FLIGHT = "in flight"
    #: It has its node, and waits for a Permit plugin.
    PERMIT = "waiting on permit"
    BINDING = "binding"
    BOUND = "bound"
    #: It is being deleted, and will not be scheduled.
    TERMINATING = "terminating"
    DELETED = "deleted"


class Rejection(msgspec.Struct, frozen=True):
    """One reason of one plugin.

    `nodes` is the number of nodes that the plugin rejects for it, `first` those that no earlier plugin rejects, as
    counted in the pod's condition. On the last number, `alone`, it is the only rejection. `examples` are names of
    nodes, such ones first. `preemptible`: preemption may resolve the reason.
    """

    plugin: str
    reason: str
    nodes: int
    first: int
    alone: int
    examples: tuple[str, ...]
    preemptible: bool = False


class RejectionDetails(msgspec.Struct, frozen=True):
    """The details of a plugin's rejection of one node, line by line; continuation lines are indented."""

    plugin: str
    node: str
    lines: tuple[str, ...]


class Score(msgspec.Struct, frozen=True):
    """The score of one plugin for one node: `raw` as answered, `normalized` to 0..100, and that times its weight."""

    plugin: str
    weight: int
    raw: int
    normalized: int
    weighted: int


class NodeScore(msgspec.Struct, frozen=True):
    """A feasible node, its rank (from 1; ties share it), its total and its scores; a single feasible node has none."""

    node: str
    rank: int
    total: int
    scores: tuple[Score, ...]


class NominatedRoom(msgspec.Struct, frozen=True):
    """A node on which room is kept for pods nominated to it."""

    node: str
    pods: tuple[str, ...]


class Assessment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The plugins' current answers about the pod, on all nodes; for a pod on a node, as if it were not there.

    `message` is the condition's message without the part of PostFilter; it is empty if nodes are feasible. `rejections`
    are the most important reasons, and `reasons_left_out` the number of others; `details` are given by plugins with
    `explain`, for the nodes with the least to change. `enough` is how many feasible nodes an attempt looks for. `top`
    are the best nodes, and the pod's own if it is on one; `margin` is the lead of the best over the next, `ties` the
    number of best nodes, `decided_by` the plugin that contributes most to the lead. `fault` is the error of a plugin,
    if any.
    """

    nodes: int
    feasible: int
    enough: int
    message: str = ""
    reasons: Mapping[str, int] = {}
    rejections: tuple[Rejection, ...] = ()
    reasons_left_out: int = 0
    details: tuple[RejectionDetails, ...] = ()
    top: tuple[NodeScore, ...] = ()
    ties: int = 0
    margin: int = 0
    decided_by: str = ""
    kept_room: tuple[NominatedRoom, ...] = ()
    fault: str = ""


class ScoreLead(msgspec.Struct, frozen=True):
    """How much higher the weighted score of a plugin is for the pod's node than for the runner-up."""

    plugin: str
    weight: int
    lead: int


class WeightChange(msgspec.Struct, frozen=True, rename="camel"):
    """The weight nearest to a plugin's own with which the runner-up alone is the best node.

    A `new_weight` of 0 means that the plugin does not score.
    """

    plugin: str
    weight: int
    new_weight: int


class NodeChoice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The comparison of the pod's node with the runner-up, in the decision and by the plugins' answers.

    Attributes:
        node: The pod's node.
        runner_up: The best other node of the decision; of the plugins' answers if no decision is recorded.
        message: All of it as a short paragraph.
        score: The recorded score of the node; None if no decision is recorded.
        runner_up_score: The recorded score of the runner-up.
        ties: The number of nodes that shared the best score of the decision; one of them was drawn.
        at_decision: Whether the plugins were called on the state right before the decision, or on that of now.
        total: The score of the node by the plugins' answers; None if they cannot be compared.
        runner_up_total: The same of the runner-up.
        obstacle: Why the plugins' answers cannot be compared, such as a node that no longer fits.
        leads: The difference of these totals by plugin, largest first; of plugins with any.
        weight_changes: Changes of one weight that put the pod on the runner-up if all nodes are compared, smallest
            first, those to 0 last; empty if the runner-up is the best node anyway.
    """

    node: str
    runner_up: str
    message: str = ""
    score: int | None = None
    runner_up_score: int | None = None
    ties: int = 0
    at_decision: bool = False
    total: int | None = None
    runner_up_total: int | None = None
    obstacle: str = ""
    leads: tuple[ScoreLead, ...] = ()
    weight_changes: tuple[WeightChange, ...] = ()


class LateFailure(msgspec.Struct, frozen=True):
    """The failure of the last attempt at a point after the choice of a node, whose hooks are not called again here."""

    point: str
    plugins: tuple[str, ...]
    rejected: bool


class PreemptionPreview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of preemption now: the node and its victims, or `why` not.

    `in_progress`: victims of the last attempt have not left yet. `tried` nodes were examined, and it would help on
    `candidates`. `reasons` counts the rejections of the others even without all less important pods.
    """

    node: str = ""
    victims: tuple[str, ...] = ()
    broken_budgets: int = 0
    why: str = ""
    in_progress: bool = False
    tried: int = 0
    candidates: int = 0
    reasons: Mapping[str, int] = {}


class WakeEvents(msgspec.Struct, frozen=True):
    """Events for which a plugin may wake a pod that it holds back, as `resource: actions`; its hint may skip each."""

    plugin: str
    events: Mapping[str, tuple[str, ...]]


class Waiting(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the pod waits for; times are seconds since 1970.

    `until` is the end of its backoff or its wait on Permit, `retried_at` when it is retried without an event. `held_by`
    are the plugins that hold it back: they rejected it, gate it, or have not permitted it yet; `why` is the gate's
    message. `queued_at` is when it entered its queue, `active` counts the active pods if it is one of them. `hook` is
    the hook that its binding waits for, of the plugins that hold it back, since `queued_at`.
    """

    queued_at: float | None = None
    until: float | None = None
    retried_at: float | None = None
    held_by: tuple[str, ...] = ()
    why: str = ""
    wakers: tuple[WakeEvents, ...] = ()
    active: int = 0
    hook: str = ""


class AlikeMembers(msgspec.Struct, frozen=True):
    """Pods of a group in the same state; while they wait, `message` is how the last attempt of each ended.

    `nodes` are those of the pods in the same order; there are none while the pods wait.
    """

    pods: tuple[str, ...]
    state: State
    nodes: tuple[str, ...] = ()
    message: str = ""


class PlacementOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """A placement that the last cycle tried: how many pods found a node, and else why the group did not fit.

    `failed_first` is the pod that failed first by itself, `reason` its message.
    """

    name: str
    fits: bool
    placed: int
    message: str = ""
    failed_first: str = ""
    reason: str = ""


class GroupExplanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The PodGroup of a pod, which may not exist, and its pods.

    `tree` is the CompositePodGroup at the root of its tree, "" if it is scheduled alone; `failed_groups` has the other
    groups of the tree that failed in its last cycle, and why. `lacks` says which group above is missing. `minimum` is
    the minCount of a gang, None if the group is none; `domain` is the label whose value all nodes of its pods share.
    `pods` counts its pods, and `members` lists them, those first that failed by themselves. `failed_first` is the pod
    that failed first in the last cycle, `reason` its message. `placement` is the chosen one; `placements` are the best
    that were tried, and `placements_left_out` counts the others. `fits` is how many of its waiting pods find nodes now
    if they are placed one after another; None if that was not tried. `condition` says how the last cycle ended.
    `remedies` would let a gang reach its minimum, or place all pods of another group.
    """

    name: str
    exists: bool
    tree: str = ""
    failed_groups: Mapping[str, str] = {}
    lacks: str = ""
    minimum: int | None = None
    domain: str = ""
    pods: int = 0
    scheduled: int = 0
    members: tuple[AlikeMembers, ...] = ()
    failed_first: str = ""
    reason: str = ""
    placement: str = ""
    placements: tuple[PlacementOutcome, ...] = ()
    placements_left_out: int = 0
    fits: int | None = None
    condition: str = ""
    remedies: tuple[Remedy, ...] = ()


class Explanation(Answer, frozen=True, kw_only=True, rename="camel"):
    """The explanation of one pod: the last decision, the plugins' current answers, and what would help.

    `at` is the time of the explanation, in seconds since 1970. `requests` are those of the pod, as in a manifest,
    `claims` its names of device claims. `node` is where it is or is about to be, `nominated` its nominated node.
    `last_decision` and `binding` are the records of its last attempt, if still stored, `late_failure` is its failure
    after a node was chosen. `condition` is the pod's own condition, while it is pending. `choice` compares its node
    with the runner-up, if there was a choice. `group` is its PodGroup, if groups are scheduled; `remedies` are for the
    pod alone. `sources` describes the sources of the profile's plugins.
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
    last_decision: Decision | None = None
    binding: Binding | None = None
    late_failure: LateFailure | None = None
    condition: str = ""
    choice: NodeChoice | None = None
    assessment: Assessment
    preemption: PreemptionPreview | None = None
    waiting: Waiting | None = None
    remedies: tuple[Remedy, ...] = ()
    group: GroupExplanation | None = None
    sources: tuple[SourceStatus, ...] = ()
    notes: tuple[str, ...] = ()


def decode_explanation(answer: bytes) -> Explanation | EngineExplanation:
    """Decode an explanation of either kind from JSON; msgspec.DecodeError if it is none."""
    return msgspec.json.decode(answer, type=Explanation | EngineExplanation)
