"""The recorded results of one pod's scheduling cycle, and which plugins affect it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

import msgspec

from kframework.objects import ApiStruct, DeviceRequestAllocationResult
from kframework.testing.conformance.claims import AllocationDetails
from kframework.values.status import Status


class RecordedStatus(ApiStruct, frozen=True, kw_only=True):
    """A status, with its reasons sorted, and the nodes that a PreFilter leaves; `plugin` only where it is recorded."""

    code: str
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    node_names: tuple[str, ...] = ()
    no_nodes: bool = False

    @classmethod
    def from_status(cls, status: Status | None, plugin: str = "") -> RecordedStatus:
        """Return a Status as it is recorded; None is Success."""
        if status is None:
            return SUCCESS
        return cls(code=status.code.title, reasons=tuple(sorted(status.reasons)), plugin=plugin)

    @property
    def rejects(self) -> bool:
        """Whether this is neither Success nor Skip."""
        return self.code not in ("Success", "Skip")

    def __str__(self) -> str:
        head = " ".join((self.plugin, self.code)).strip()
        nodes = f"nodes {', '.join(self.node_names) or 'none'}" if self.node_names or self.no_nodes else ""
        return ": ".join(filter(None, (head, ", ".join(self.reasons), nodes)))


#: The status that is left out wherever statuses are recorded.
SUCCESS = RecordedStatus(code="Success")


class RecordedScores(ApiStruct, frozen=True, kw_only=True):
    """The scores of a plugin for the feasible nodes."""

    weight: int
    raw: dict[str, int] = msgspec.field(default_factory=dict)
    normalized: dict[str, int] = msgspec.field(default_factory=dict)


class RecordedCandidate(ApiStruct, frozen=True, kw_only=True):
    """A node on which preemption would help."""

    victims: tuple[str, ...] = ()
    pdb_violations: int = 0


class RecordedPostFilter(ApiStruct, frozen=True, kw_only=True):
    """The result of PostFilter; `preemption` is the status of DefaultPreemption alone."""

    code: str = ""
    message: str = ""
    preemption: RecordedStatus | None = None
    nominated_node: str = ""
    nominated_any_of: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    candidates: dict[str, RecordedCandidate] = msgspec.field(default_factory=dict)
    fit_error_after_post_filter: str = ""
    deallocates: tuple[str, ...] = ()
    deletes: str = ""


class RecordedCycle(ApiStruct, frozen=True, kw_only=True):
    """All that is recorded of a cycle; what is empty was left out."""

    config_error: str = ""
    pre_enqueue: dict[str, RecordedStatus] = msgspec.field(default_factory=dict)
    pre_filter: dict[str, RecordedStatus] = msgspec.field(default_factory=dict)
    filter_skipped: tuple[str, ...] = ()
    filter_not_run: tuple[str, ...] = ()
    filter: dict[str, dict[str, RecordedStatus]] = msgspec.field(default_factory=dict)
    nodes: dict[str, RecordedStatus] = msgspec.field(default_factory=dict)
    feasible: tuple[str, ...] = ()
    score_skipped: tuple[str, ...] = ()
    scores: dict[str, RecordedScores] = msgspec.field(default_factory=dict)
    totals: dict[str, int] = msgspec.field(default_factory=dict)
    best: tuple[str, ...] = ()
    fit_error: str = ""
    error: str = ""
    score_error: str = ""
    post_filter: RecordedPostFilter | None = None
    allocations: dict[str, dict[str, tuple[DeviceRequestAllocationResult, ...]]] = msgspec.field(default_factory=dict)
    allocation_details: dict[str, dict[str, AllocationDetails]] = msgspec.field(default_factory=dict)

    @property
    def plugins(self) -> Set[str]:
        """The plugins with a recorded answer."""
        plugins: set[str] = {*self.pre_enqueue, *self.pre_filter, *self.scores}
        plugins.update(self.filter_skipped, self.filter_not_run, self.score_skipped)
        return plugins.union(*self.filter.values())

    @property
    def filtering_plugins(self) -> Set[str]:
        """The plugins that affect which nodes are feasible: those that reject or narrow somewhere."""
        plugins = {verdict.plugin for verdict in self.nodes.values() if verdict.plugin}
        return plugins.union(_rejecting_plugins(self.pre_filter), *map(_rejecting_plugins, self.filter.values()))

    @property
    def scoring_plugins(self) -> Set[str]:
        """The plugins that affect the totals: those that give some node more than 0."""
        return {name for name, scored in self.scores.items() if any(scored.normalized.values())}


def _rejecting_plugins(statuses: Mapping[str, RecordedStatus]) -> Iterator[str]:
    for name, status in statuses.items():
        if status.rejects or status.node_names or status.no_nodes:
            yield name
