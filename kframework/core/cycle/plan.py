"""What is known in advance about the pods of one signature, and the plans of a profile, remembered within a budget."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from functools import cached_property
from itertools import takewhile
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from kframework.core.cycle.answer_cache import AnswerColumns, NominatedRejections
from kframework.core.cycle.rotation import nodes_to_find
from kframework.core.runtime.points import PreFilterResult, run_pre_filter
from kframework.core.runtime.profile import Profile, Signature
from kframework.core.runtime.steps import FilterStep, PreFilterAnswer, PreFilterStep, ScoreStep, StatusStep, Step
from kframework.framework.answers import NOTHING
from kframework.framework.cycle_state import CycleState
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.values.status import Code, Status

#: The lower layers of one profile, by what their answers depend on; each is kept by the plans that stand on it.
SharedColumns = WeakValueDictionary[tuple[Hashable, ...], AnswerColumns]

#: What a plan takes without columns, in bytes (8,066 measured with the default profile).
_PER_PLAN = 8 << 10


class Plan(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """What a profile knows in advance about the pods of one signature.

    `signed` are the plugins that sign the pod. `cache` holds their remembered answers; None where there are none.
    `state` is what they stored; an attempt's own state stands on it, on `before` that of a plugin that does not sign,
    if that plugin ends PreFilter. `pre_filter_result` is the whole of PreFilter where every plugin signs, else None:
    `pre_filters` are asked in every cycle, and those among them that sign say again what they said. `filters` and
    `scores` are all that have something to say, in order: what a few rows are asked by. Of those whose answers `cache`
    does not hold `fresh_columnar` are asked about every row, `fresh_scalar` only along the rotation; `fresh_scores`
    about the feasible ones, like those in `normalizing`, whose raw scores are remembered. `pre_score_fault` ends the
    attempt once scoring is reached and `fresh_pre_scores`, which come before it, were asked. `beside_nominated` holds
    what is remembered of nodes with nominated pods, where `remembers_filters`.
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
    beside_nominated: NominatedRejections

    @cached_property
    def remembers_filters(self) -> bool:
        """Whether no Filter plugin need be asked again what it said about a pod of the same signature."""
        return all(step.name in self.signed for step in self.filters)

    @cached_property
    def is_remembered(self) -> bool:
        """Whether its columns hold all that plugins say of nodes, and none is to be asked in each cycle."""
        result, profile = self.pre_filter_result, self.profile
        return (
            self.cache is not None
            and result is not None
            and result.status is None
            and result.nodes is None
            and not (self.fresh_columnar or self.fresh_scalar or self.fresh_pre_scores or self.fresh_scores)
            and self.pre_score_fault is None
            and bool(profile.scores)
            and not profile.has_wrapper("pre_filter")
            and not profile.has_wrapper("pre_score")
        )

    @cached_property
    def binds_directly(self) -> bool:
        """Whether nothing is to be done for a pod that has its node but to bind it through the API."""
        profile = self.profile
        steps = (*profile.reserve, *profile.unreserve, *profile.permit, *profile.pre_bind, *profile.post_bind)
        wrapped = any(profile.has_wrapper(point) for point in ("reserve", "unreserve", "permit"))
        return not steps and not wrapped and bool(profile.bind) and profile.bind[0].plugin.binds_through_api

    @cached_property
    def evaluated(self) -> list[int]:
        """How many nodes the last search looked at."""
        return [0]

    @cached_property
    def uniform_scores(self) -> dict[str, tuple[int, int, int]]:
        """What each plugin last made of equal raw scores in normalising: (raw score, number of nodes, score)."""
        return {}

    def with_columns(self, nodes: NodeTable) -> Plan:
        """Return the plan with columns for what plugins say that read pods; itself if none of them signs."""
        filters = tuple(step for step in self.fresh_columnar if step.name in self.signed)
        scores = tuple(step for step in self.fresh_scores if step.name in self.signed)
        if not filters and not scores:
            return self
        return replace(
            self,
            cache=AnswerColumns(nodes, nodes.pod_log, filters, scores, self.cache),
            fresh_columnar=tuple(step for step in self.fresh_columnar if step.name not in self.signed),
            fresh_scores=tuple(step for step in self.fresh_scores if step.name not in self.signed),
            normalizing=tuple(step for step in self.scores if step.name in self.signed and step.normalize is not None),
        )

    @cached_property
    def uncached(self) -> Plan:
        """The plan that asks all plugins about every row, and remembers nothing."""
        return replace(self, cache=None, fresh_columnar=self.filters, fresh_scalar=(), fresh_scores=self.scores)

    @cached_property
    def _without(self) -> dict[frozenset[str], Plan]:
        return {}

    def without(self, skipped: frozenset[str]) -> Plan:
        """Return the plan without the Filter plugins that have nothing to say about a pod."""
        if skipped not in self._without:
            self._without[skipped] = replace(
                self,
                filters=tuple(step for step in self.filters if step.name not in skipped),
                fresh_columnar=tuple(step for step in self.fresh_columnar if step.name not in skipped),
                fresh_scalar=tuple(step for step in self.fresh_scalar if step.name not in skipped),
            )
        return self._without[skipped]

    def of(self, timed: Profile) -> Plan:
        """Return the same plan for the timed form of its profile."""
        return replace(
            self,
            profile=timed,
            pre_filters=timed.own(self.pre_filters),
            filters=timed.own(self.filters),
            fresh_columnar=timed.own(self.fresh_columnar),
            fresh_scalar=timed.own(self.fresh_scalar),
            fresh_pre_scores=timed.own(self.fresh_pre_scores),
            scores=timed.own(self.scores),
            fresh_scores=timed.own(self.fresh_scores),
            normalizing=timed.own(self.normalizing),
        )


def make_plan(profile: Profile, signature: Signature, pod: PendingPod, nodes: NodeTable, lower: SharedColumns) -> Plan:
    """Ask the plugins that sign the pod for all that they say before a node is looked at."""
    silent = frozenset(
        plugin.name for plugin, value in zip(profile.placement, signature.values, strict=True) if value is NOTHING
    )
    profile = profile.without(silent)
    signed = frozenset(
        plugin.name for plugin, value in zip(profile.placement, signature.values, strict=True) if value is not None
    )
    state, before = CycleState(), dict[str, CycleState]()
    pre_filter: dict[str, PreFilterAnswer] = {}

    def noted(step: PreFilterStep) -> PreFilterStep:
        def ask(*asked: object) -> PreFilterAnswer:
            answer = pre_filter[step.name] = step.call(*asked)
            return answer

        return Step(step.plugin, ask)

    pre_filters = [noted(step) if step.name in signed else step for step in profile.pre_filter]
    pre_filter_result: PreFilterResult | None = None
    if all(step.name in signed for step in profile.pre_filter):
        # Plugins behind the one that ends it store nothing, as in kube-scheduler: PostFilter may notice.
        pre_filter_result = run_pre_filter(pre_filters, state, pod, nodes)
    else:
        for step in pre_filters:
            if step.name in signed:
                step.call(state, pod, nodes)
            else:
                before[step.name] = state.clone()
    # A pod that is rejected as a whole is never scored, and its plugins need not have stored what scoring wants.
    rejected = any(isinstance(answer, Status) and not _skips(answer) for answer in pre_filter.values())
    pre_score = {
        step.name: step.call(state, pod, nodes, nodes.order)
        for step in profile.pre_score
        if step.name in signed and not rejected
    }
    skipping = silent | {name for name, answer in pre_filter.items() if _skips(answer)}
    faults = {name: answer for name, answer in pre_score.items() if answer is not None and not _skips(answer)}
    unscored = silent | faults.keys() | {name for name, answer in pre_score.items() if _skips(answer)}
    filters = tuple(step for step in profile.filters if step.name not in skipping)
    scores = tuple(step for step in profile.scores if step.name not in unscored)
    # What reads only the Node is shared by many plans and seldom changes, so it is remembered at once.
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
        # None is passed over that rejects the pod or narrows the nodes.
        pre_filters=tuple(
            step.saying(pre_filter[step.name]) if step.name in signed else step
            for step in profile.pre_filter
            if step.name not in signed or not ((said := pre_filter.get(step.name)) is None or _skips(said))
        ),
        filters=filters,
        fresh_columnar=tuple(step for step in others if step.ask_rows is not None or step.name in signed),
        fresh_scalar=tuple(step for step in others if step.ask_rows is None and step.name not in signed),
        pre_score_fault=next(iter(faults.values()), None),
        fresh_pre_scores=tuple(
            step
            for step in takewhile(lambda step: step.name not in faults, profile.pre_score)
            if step.name not in signed
        ),
        scores=scores,
        fresh_scores=tuple(step for step in scores if step not in node_scores),
        normalizing=tuple(step for step in node_scores if step.normalize is not None),
        cache=_lower(profile, signature, node_filters, node_scores, nodes, lower),
        beside_nominated=NominatedRejections(),
    )


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
    # Where other plugins reject the pod as a whole, some of these were not asked whether they have anything to say.
    key = (*values, *filters, *scores)
    layer = layers.get(key)
    if layer is None and (filters or scores):
        layer = layers[key] = AnswerColumns(nodes, nodes.node_log, filters, scores)
    return layer


class _CacheEntry(msgspec.Struct):
    """A plan as it was made, the same with columns of its own if it has any, and when it was last asked for."""

    made: Plan
    columned: Plan | None = None
    asked: int = 0


class PlanCache:
    """The plans of one profile, least recently used first, within a budget of bytes.

    A plan has columns of its own where bringing them up to date costs less than asking about the rows that a search
    looks at, `percentage` of all nodes (0 is adaptive): where no more than half as many pods came in between. (At 5,000
    nodes that is 250: with 200 templates in turn a cycle takes as long with columns as without, with 1,000 twice as
    long.) Their memory goes to another plan only if that was asked for later than the one that has them: where more
    templates take turns than there is room for, some keep their columns.

    All are forgotten when the set of nodes changes.
    """

    def __init__(self, profile: Profile, nodes: NodeTable, budget: int, percentage: int = 100) -> None:
        self._profile = profile
        self._nodes = nodes
        self._budget = budget
        self._percentage = percentage
        self._plans: OrderedDict[Signature, _CacheEntry] = OrderedDict()
        #: The plans that have columns of their own, and what these take.
        self._columned: OrderedDict[Signature, int] = OrderedDict()
        self._lower = SharedColumns()
        #: How many plans stand on each of the lower layers.
        self._stand_on = Counter[AnswerColumns]()
        #: The memory of all plans and columns, in bytes; it may exceed the budget by the columns of one plan.
        self.nbytes: int = 0
        self._pods = 0
        self._generation = nodes.generation

    def plan(self, signature: Signature, pod: PendingPod) -> Plan:
        """Return the plan for a pod of this signature, making it if it is not remembered."""
        if self._generation != self._nodes.generation:
            self.clear()
        self._pods += 1
        known = self._plans.get(signature)
        if known is None:
            known = self._remember(signature, make_plan(self._profile, signature, pod, self._nodes, self._lower))
            while len(self._plans) > 1 and self.nbytes > self._budget:
                self._forget(next(iter(self._plans)))
        else:
            self._plans.move_to_end(signature)
        plan = self._ensure_columns(signature, known) if self._worth_columns(known) else known.made
        known.asked = self._pods
        return plan

    def _remember(self, signature: Signature, made: Plan) -> _CacheEntry:
        known = self._plans[signature] = _CacheEntry(made)
        self.nbytes += _PER_PLAN
        if made.cache is not None:
            self._stand_on[made.cache] += 1
            if self._stand_on[made.cache] == 1:
                self.nbytes += made.cache.nbytes
        return known

    def _forget(self, signature: Signature) -> None:
        if signature in self._columned:
            self._evict_columns(signature)
        made = self._plans.pop(signature).made
        self.nbytes -= _PER_PLAN
        if made.cache is not None:
            self._stand_on[made.cache] -= 1
            if not self._stand_on[made.cache]:
                del self._stand_on[made.cache]
                self.nbytes -= made.cache.nbytes

    def _worth_columns(self, known: _CacheEntry) -> bool:
        nodes = len(self._nodes)
        run_filters = nodes_to_find(nodes, self._percentage)
        return run_filters == nodes or (known.asked > 0 and 2 * (self._pods - known.asked) <= run_filters)

    def _ensure_columns(self, signature: Signature, known: _CacheEntry) -> Plan:
        """Return a plan with columns of its own, as far as there is room or somebody has to make room."""
        if known.columned is not None:
            self._columned.move_to_end(signature)
            return known.columned
        while self._columned and self.nbytes >= self._budget:
            oldest = next(iter(self._columned))
            if self._plans[oldest].asked > known.asked:
                return known.made
            self._evict_columns(oldest)
        plan = known.columned = known.made.with_columns(self._nodes)
        self._columned[signature] = 0 if plan is known.made or plan.cache is None else plan.cache.nbytes
        self.nbytes += self._columned[signature]
        return plan

    def _evict_columns(self, signature: Signature) -> None:
        self.nbytes -= self._columned.pop(signature)
        self._plans[signature].columned = None

    def clear(self) -> None:
        """Forget everything."""
        self._plans.clear()
        self._columned.clear()
        self._lower = SharedColumns()
        self._stand_on.clear()
        self.nbytes = 0
        self._generation = self._nodes.generation

    def __len__(self) -> int:
        return len(self._plans)
