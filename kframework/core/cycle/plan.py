"""Cached plans for pods of one signature: plugin answers known before a node is examined, within a memory budget."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from functools import cached_property
from itertools import takewhile
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from kframework.core.cycle.answer_cache import AnswerColumns, NominatedRejections
from kframework.core.cycle.domain_columns import DomainColumns
from kframework.core.cycle.rotation import nodes_to_find
from kframework.core.runtime.points import PreFilterResult, run_pre_filter
from kframework.core.runtime.profile import Profile, Signature
from kframework.core.runtime.steps import FilterStep, PreFilterAnswer, PreFilterStep, ScoreStep, StatusStep, Step
from kframework.framework.answers import NOTHING
from kframework.framework.cycle_state import CycleState
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.values.status import Code, Status

#: The lower layers of one profile, by what their answers depend on; each lives as long as a plan uses it.
SharedColumns = WeakValueDictionary[tuple[Hashable, ...], AnswerColumns]

#: The fields of a plan that hold steps.
_STEPS = (
    *("pre_filters", "filters", "fresh_columnar", "fresh_scalar"),
    *("fresh_pre_scores", "scores", "fresh_scores", "normalizing"),
)

#: The size of a plan without columns, in bytes, with its signature (9,150 measured with the default profile).
_PER_PLAN = 9 << 10


class Plan(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """The answers of a profile that are known in advance for pods of one signature.

    `signed` are the plugins that sign the pod. `cache` holds their cached answers, None if there are none. `state` is
    what they stored; an attempt's own state is layered on it, or on `before` of a plugin that does not sign if that
    plugin ends PreFilter. `pre_filter_result` is the whole PreFilter result if every plugin signs, else None: then
    `pre_filters` run in every cycle, and the signing ones repeat their cached answer. `filters` and `scores` are all
    plugins that do not skip the pod, in order, used for single rows. Of those not in `cache`, `fresh_columnar` run on
    every row, `fresh_scalar` only along the rotation, `fresh_scores` on the feasible rows, like those in `normalizing`,
    whose raw scores are cached. Plugins that read by domain always score in the cycle. `pre_score_fault` ends the
    attempt after `fresh_pre_scores`, which come before it, have run. `nominated_rejections` caches filter results of
    nodes with nominated pods, if `remembers_filters`. `renewal` repeats what plugins that read by domain stored in
    `state`, None if there are none.
    """

    profile: Profile
    signature: Signature
    signed: frozenset[str]
    state: CycleState
    before: Mapping[str, CycleState]
    pre_filter_result: PreFilterResult | None
    pre_filters: tuple[PreFilterStep, ...]
    filters: tuple[FilterStep, ...]
    fresh_columnar: tuple[FilterStep, ...]
    fresh_scalar: tuple[FilterStep, ...]
    pre_score_fault: Status | None
    fresh_pre_scores: tuple[StatusStep, ...]
    scores: tuple[ScoreStep, ...]
    fresh_scores: tuple[ScoreStep, ...]
    normalizing: tuple[ScoreStep, ...]
    cache: AnswerColumns | None
    nominated_rejections: NominatedRejections
    renewal: Renewal | None

    @property
    def is_outdated(self) -> bool:
        """Whether plugins that read by domain must run PreFilter again before the plan is used."""
        return self.renewal is not None and self.renewal.version != self.renewal.nodes.count_changes

    @cached_property
    def remembers_filters(self) -> bool:
        """Whether the answers of all Filter plugins about a node can be reused until the node changes."""
        return all(step.name in self.signed and step.plugin.reads != "domains" for step in self.filters)

    @cached_property
    def reads_domains(self) -> bool:
        """Whether a pod on another node can change what a plugin that signs says of a node."""
        steps: tuple[FilterStep | ScoreStep, ...] = (*self.filters, *self.scores)
        return any(step.name in self.signed and step.plugin.reads == "domains" for step in steps)

    @cached_property
    def runs_pre_score(self) -> bool:
        """Whether PreScore must run in each attempt."""
        return bool(self.fresh_pre_scores) or self.profile.has_wrapper("pre_score")

    @cached_property
    def is_remembered(self) -> bool:
        """Whether the columns hold all answers of Filter, and only plugins that sign the pod run in each cycle."""
        result, profile = self.pre_filter_result, self.profile
        return (
            self.cache is not None
            and result is not None
            and result.status is None
            and result.nodes is None
            and not (self.fresh_columnar or self.fresh_scalar)
            and self.signed.issuperset(step.name for step in self.fresh_pre_scores)
            and self.signed.issuperset(step.name for step in self.fresh_scores)
            and self.pre_score_fault is None
            and bool(profile.scores)
            and not (profile.has_wrapper("pre_filter") or profile.has_wrapper("pre_score"))
        )

    @cached_property
    def binds_directly(self) -> bool:
        """Whether a pod with a node needs only to be bound through the API."""
        profile = self.profile
        steps = (*profile.reserve, *profile.unreserve, *profile.permit, *profile.pre_bind, *profile.post_bind)
        wrapped = any(profile.has_wrapper(point) for point in ("reserve", "unreserve", "permit"))
        return not steps and not wrapped and bool(profile.bind) and profile.bind[0].plugin.binds_through_api

    @cached_property
    def evaluated(self) -> list[int]:
        """The number of nodes that the last search evaluated, in a list of one as the plan itself is frozen."""
        return [0]

    @cached_property
    def uniform_scores(self) -> dict[str, tuple[int, int, int]]:
        """The last normalised score of equal raw scores, by plugin: (raw score, number of nodes, score)."""
        return {}

    def with_columns(self, nodes: NodeTable) -> Plan:
        """Return the plan with columns for plugins that read pods; itself if none of them signs."""
        filters = tuple(step for step in self.fresh_columnar if step.name in self.signed)
        by_domain = tuple(step for step in filters if step.plugin.reads == "domains")
        scores = tuple(step for step in self.fresh_scores if _is_cached(step, self.signed))
        if not filters and not scores:
            return self
        by_node = tuple(step for step in filters if step not in by_domain)
        cache = AnswerColumns(nodes, nodes.pod_log, by_node, scores, self.cache)
        return replace(
            self,
            cache=DomainColumns(nodes, by_domain, cache) if by_domain else cache,
            fresh_columnar=tuple(step for step in self.fresh_columnar if step.name not in self.signed),
            fresh_scores=tuple(step for step in self.fresh_scores if not _is_cached(step, self.signed)),
            normalizing=tuple(
                step for step in self.scores if _is_cached(step, self.signed) and step.normalize is not None
            ),
        )

    @cached_property
    def uncached(self) -> Plan:
        """The plan that runs all plugins on every row and caches nothing."""
        return replace(self, cache=None, fresh_columnar=self.filters, fresh_scalar=(), fresh_scores=self.scores)

    @cached_property
    def _skipping(self) -> dict[frozenset[str], Plan]:
        return {}

    def skipping(self, skipped: frozenset[str]) -> Plan:
        """Return the plan without the Filter plugins that skip a pod."""
        if skipped not in self._skipping:
            remaining = {
                name: tuple(step for step in getattr(self, name) if step.name not in skipped)
                for name in ("filters", "fresh_columnar", "fresh_scalar")
            }
            self._skipping[skipped] = replace(self, **remaining)
        return self._skipping[skipped]

    def for_profile(self, timed: Profile) -> Plan:
        """Return the same plan for the timed form of its profile."""
        steps = {name: timed.matching_steps(getattr(self, name)) for name in _STEPS}
        return replace(self, profile=timed, **steps)


def make_plan(profile: Profile, signature: Signature, pod: PendingPod, nodes: NodeTable, lower: SharedColumns) -> Plan:
    """Collect all answers of the plugins that sign the pod and that need no node."""
    silent = frozenset(
        plugin.name for plugin, value in zip(profile.placement, signature.values, strict=True) if value is NOTHING
    )
    profile = profile.without_plugins(silent)
    signed = frozenset(
        plugin.name for plugin, value in zip(profile.placement, signature.values, strict=True) if value is not None
    )
    state, before = CycleState(), dict[str, CycleState]()
    pre_filter: dict[str, PreFilterAnswer] = {}
    renewed: list[tuple[PreFilterStep, CycleState]] = []

    def recording(step: PreFilterStep) -> PreFilterStep:
        def run(state: CycleState, *arguments: object) -> PreFilterAnswer:
            answer = pre_filter[step.name] = step.call(state, *arguments)
            is_by_domain = step.plugin.reads == "domains" and step.name not in silent
            if is_by_domain and (not isinstance(answer, Status) or _skips(answer)):
                renewed.append((step, state))
            return answer

        return Step(step.plugin, run)

    pre_filters = [recording(step) if step.name in signed else step for step in profile.pre_filter]
    pre_filter_result: PreFilterResult | None = None
    if all(step.name in signed for step in profile.pre_filter):
        # Plugins behind the one that ends it store nothing, as in kube-scheduler: PostFilter may notice.
        pre_filter_result = run_pre_filter(pre_filters, state, pod, nodes)
        # What skips for the numbers of pods in domains may not skip the next pod.
        lasting = pre_filter_result.skipped.difference(step.name for step, _ in renewed)
        pre_filter_result = replace(pre_filter_result, skipped=lasting)
    else:
        for step in pre_filters:
            if step.name in signed:
                step.call(state, pod, nodes)
            else:
                before[step.name], state = state, CycleState(state)
    # A pod that is rejected as a whole is never scored, and its plugins may not have stored what scoring reads.
    rejected = any(isinstance(answer, Status) and not _skips(answer) for answer in pre_filter.values())
    pre_score = {
        step.name: step.call(state, pod, nodes, nodes.order)
        for step in profile.pre_score
        if _is_cached(step, signed) and not rejected
    }
    skipping = silent | {name for name, answer in pre_filter.items() if _skips(answer)}.difference(
        step.name for step, _ in renewed
    )
    faults = {name: answer for name, answer in pre_score.items() if answer is not None and not _skips(answer)}
    unscored = silent | faults.keys() | {name for name, answer in pre_score.items() if _skips(answer)}
    filters = tuple(step for step in profile.filters if step.name not in skipping)
    scores = tuple(step for step in profile.scores if step.name not in unscored)
    # Answers that read only the Node are shared by many plans and seldom change, so they are cached at once.
    node_filters = tuple(step for step in filters if step.name in signed and step.plugin.reads == "node")
    node_scores = tuple(step for step in scores if step.name in signed and step.plugin.reads == "node")
    others = [step for step in filters if step not in node_filters]
    return Plan(
        profile=profile,
        signature=signature,
        signed=signed,
        state=state,
        before=before,
        pre_filter_result=pre_filter_result,
        # Plugins that reject the pod or narrow the nodes are kept.
        pre_filters=tuple(
            step.with_fixed_answer(pre_filter[step.name]) if step.name in signed else step
            for step in profile.pre_filter
            if step.name not in signed or not ((answer := pre_filter.get(step.name)) is None or _skips(answer))
        ),
        filters=filters,
        fresh_columnar=tuple(step for step in others if step.run_rows is not None or step.name in signed),
        fresh_scalar=tuple(step for step in others if step.run_rows is None and step.name not in signed),
        pre_score_fault=next(iter(faults.values()), None),
        fresh_pre_scores=tuple(
            step
            for step in takewhile(lambda step: step.name not in faults, profile.pre_score)
            if not _is_cached(step, signed) and step.name not in silent
        ),
        scores=scores,
        fresh_scores=tuple(step for step in scores if step not in node_scores),
        normalizing=tuple(step for step in node_scores if step.normalize is not None),
        cache=_lower(profile, signature, node_filters, node_scores, nodes, lower),
        nominated_rejections=NominatedRejections(),
        renewal=Renewal(nodes, tuple(renewed), nodes.count_changes) if renewed else None,
    )


def _is_cached(step: StatusStep | ScoreStep, signed: frozenset[str]) -> bool:
    """Return whether what the plugin of a scoring step says of a node stays until the node changes."""
    return step.name in signed and step.plugin.reads != "domains"


def _skips(answer: PreFilterAnswer) -> bool:
    return isinstance(answer, Status) and answer.code == Code.SKIP


def _lower(
    profile: Profile,
    signature: Signature,
    filters: tuple[FilterStep, ...],
    scores: tuple[ScoreStep, ...],
    nodes: NodeTable,
    layers: SharedColumns,
) -> AnswerColumns | None:
    """Return the layer of these steps, which read only the Node object; None if there are none."""
    values = (
        value for plugin, value in zip(profile.placement, signature.values, strict=True) if plugin.reads == "node"
    )
    # If other plugins reject the pod as a whole, some of these did not get a chance to skip.
    key = (*values, *filters, *scores)
    layer = layers.get(key)
    if layer is None and (filters or scores):
        layer = layers[key] = AnswerColumns(nodes, nodes.node_log, filters, scores)
    return layer


class Renewal(msgspec.Struct, eq=False):
    """What to do when counts that `pre_filter` looked up are dropped, or new terms or labels come into use.

    The plugins that read by domain then run it again; `version` is `NodeTable.count_changes` at the last time.
    """

    nodes: NodeTable
    steps: tuple[tuple[PreFilterStep, CycleState], ...]
    version: int

    def run(self, pod: PendingPod) -> frozenset[str]:
        """Run `pre_filter` again; return the plugins that skip now."""
        answers = {step.name: step.call(state, pod, self.nodes) for step, state in self.steps}
        self.version = self.nodes.count_changes
        return frozenset(name for name, answer in answers.items() if _skips(answer))


class _CacheEntry(msgspec.Struct, eq=False):
    """A plan without its own columns, the same plan with them if it has any, and the time of its last use."""

    made: Plan
    signature_nbytes: int
    columned: Plan | None = None
    used: int = 0
    counted: int = 0

    @property
    def nbytes(self) -> int:
        """The memory of the plan with its own columns, in bytes."""
        own = self.columned.cache if self.columned is not None else None
        columns = 0 if own is None or own is self.made.cache else own.nbytes
        return _PER_PLAN + self.signature_nbytes + self.made.nominated_rejections.nbytes + columns


class PlanCache:
    """The plans of one profile, least recently used first, within a budget of bytes.

    A plan has its own columns if updating them costs less than computing the rows that a search evaluates, `percentage`
    of all nodes (0 is adaptive): that is when at most half as many pods came in between. (At 5,000 nodes that is 250:
    with 200 templates in turn a cycle takes as long with columns as without, with 1,000 twice as long.) Columns are
    evicted only for a plan that was used later than their owner: if more templates take turns than there is room for,
    some keep their columns.

    All plans are dropped when the set of nodes changes.
    """

    def __init__(self, profile: Profile, nodes: NodeTable, budget: int, percentage: int = 100) -> None:
        self.profile: Profile = profile
        #: The maximum memory of all plans and columns, in bytes.
        self.budget: int = budget
        self._nodes = nodes
        self._percentage = percentage
        self._plans: OrderedDict[Signature, _CacheEntry] = OrderedDict()
        #: The plans that have their own columns, least recently used first.
        self._columned: OrderedDict[Signature, _CacheEntry] = OrderedDict()
        self._lower = SharedColumns()
        #: The number of plans that use each lower layer.
        self._users = Counter[AnswerColumns]()
        #: The memory of all plans and columns, in bytes; it may exceed the budget by the columns of one plan.
        self.nbytes: int = 0
        self._pods = 0
        #: The number of pods when a plan was last added: plans used since may have grown.
        self._added_at = 0
        self._generation = nodes.generation

    def plan(self, signature: Signature, pod: PendingPod) -> Plan:
        """Return the plan for a pod of this signature, making it if it is not remembered."""
        if self._generation != self._nodes.generation:
            self.clear()
        self._pods += 1
        known = self._plans.get(signature)
        if known is None:
            known = self._add(signature, pod)
        else:
            self._plans.move_to_end(signature)
        plan = self._ensure_columns(signature, known) if self._worth_columns(known) else known.made
        known.used = self._pods
        if plan.renewal is not None and plan.is_outdated:
            plan.renewal.run(pod)
        return plan

    def _add(self, signature: Signature, pod: PendingPod) -> _CacheEntry:
        """Make a plan and remember it; the oldest ones are forgotten if there is no room for it."""
        made = make_plan(self.profile, signature, pod, self._nodes, self._lower)
        for used in takewhile(lambda entry: entry.used >= self._added_at, reversed(self._plans.values())):
            self._count(used)
        self._added_at = self._pods
        # A signature of all fields, and what is counted for pods by domain, keeps the template of its pods.
        keeps_template = self.profile.signs_all_fields or made.reads_domains
        known = _CacheEntry(made, pod.template.nbytes if keeps_template else 0)
        self._plans[signature] = known
        if made.cache is not None:
            self._users[made.cache] += 1
        self._count(known)
        while len(self._plans) > 1 and self.nbytes > self.budget:
            self._forget(next(iter(self._plans)))
        return known

    def _count(self, entry: _CacheEntry) -> None:
        """Count the memory of a plan and of the lower layer that it uses, in place of what was counted before."""
        for counted in (entry, entry.made.cache):
            if counted is not None:
                nbytes = counted.nbytes
                self.nbytes += nbytes - counted.counted
                counted.counted = nbytes

    def _forget(self, signature: Signature) -> None:
        entry = self._plans.pop(signature)
        self._columned.pop(signature, None)
        self.nbytes -= entry.counted
        lower = entry.made.cache
        if lower is not None:
            self._users[lower] -= 1
            if not self._users[lower]:
                del self._users[lower]
                self.nbytes -= lower.counted
                lower.counted = 0

    def _worth_columns(self, known: _CacheEntry) -> bool:
        if known.columned is not None and known.used == self._pods - 1:
            return True
        nodes = len(self._nodes)
        run_filters = nodes_to_find(nodes, self._percentage)
        return run_filters == nodes or (known.used > 0 and 2 * (self._pods - known.used) <= run_filters)

    def _ensure_columns(self, signature: Signature, known: _CacheEntry) -> Plan:
        """Return a plan with its own columns if there is room or older columns can be evicted."""
        if known.columned is not None:
            self._columned.move_to_end(signature)
            return known.columned
        while self._columned and self.nbytes >= self.budget:
            oldest, entry = next(iter(self._columned.items()))
            if entry.used > known.used:
                return known.made
            del self._columned[oldest]
            entry.columned = None
            self._count(entry)
        known.columned = known.made.with_columns(self._nodes)
        self._columned[signature] = known
        self._count(known)
        return known.columned

    def clear(self) -> None:
        """Forget everything."""
        self._plans.clear()
        self._columned.clear()
        self._lower = SharedColumns()
        self._users.clear()
        self.nbytes = 0
        self._generation = self._nodes.generation

    def __len__(self) -> int:
        return len(self._plans)


class PlanCaches(dict[str, PlanCache]):
    """The plan caches of all profiles, by scheduler name, which share a budget of bytes."""

    def __init__(self, nodes: NodeTable) -> None:
        super().__init__()
        self._nodes = nodes

    def follow(self, profiles: Mapping[str, Profile], budget: int) -> None:
        """Keep what is remembered for these very profiles; forget the rest."""
        known, share = dict(self), budget // len(profiles)
        self.clear()
        for name, profile in profiles.items():
            cache = known.get(name)
            if cache is None or cache.profile is not profile:
                cache = PlanCache(profile, self._nodes, share, profile.percentage_of_nodes_to_score)
            cache.budget = share
            self[name] = cache
