"""What is known in advance about the pods of one signature, and the plans of a profile, remembered within a budget."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from itertools import takewhile
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from kframework.core.cycle.beside_nominated import BesideNominated
from kframework.core.cycle.layers import Layer
from kframework.core.runtime.points import PreFilterResult, run_pre_filter
from kframework.core.runtime.profile import Profile, Signature
from kframework.core.runtime.steps import FilterStep, PreFilterAnswer, PreFilterStep, ScoreStep, StatusStep, Step
from kframework.framework.cycle_state import CycleState
from kframework.framework.status import Code, Status
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod

#: The lower layers of one profile, by what their answers depend on; each is kept by the plans that stand on it.
LowerLayers = WeakValueDictionary[tuple[Hashable, ...], Layer]


class Plan(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """What a profile knows in advance about the pods of one signature.

    `cache` holds the remembered answers; None when no plugin signs the pod. `state` is what the signing plugins stored;
    an attempt's own state stands on it, on `before` that of a plugin that does not sign, if that plugin ends PreFilter.
    `pre_filter_result` is the whole of PreFilter where every plugin signs, else None: `pre_filters` are asked in every
    cycle, and those among them that sign say again what they said. `filters` and `scores` are all that have something
    to say, in order: what a few rows are asked by. Of those that are asked in every cycle `fresh_columnar` are asked
    about every row, `fresh_scalar` only along the rotation; `fresh_scores` about the feasible ones, like those in
    `normalizing`, whose raw scores are remembered. `pre_score_fault` ends the attempt once scoring is reached and
    `fresh_pre_scores`, which come before it, were asked. `beside_nominated` holds what is remembered of nodes with
    nominated pods, where `remembers_filters`. `nbytes` is the memory of the columns that belong to this plan alone.
    """

    profile: Profile
    signature: Signature
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
    cache: Layer | None
    beside_nominated: BesideNominated
    nbytes: int

    @property
    def remembers_filters(self) -> bool:
        """Whether no Filter plugin need be asked again what it said about a pod of the same signature."""
        return not (self.fresh_columnar or self.fresh_scalar)

    @cached_property
    def unremembered(self) -> Plan:
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

    def of(self, twin: Profile) -> Plan:
        """Return the same plan for the profile's twin, whose plugins are timed."""
        return replace(
            self,
            profile=twin,
            pre_filters=twin.own(self.pre_filters),
            filters=twin.own(self.filters),
            fresh_columnar=twin.own(self.fresh_columnar),
            fresh_scalar=twin.own(self.fresh_scalar),
            fresh_pre_scores=twin.own(self.fresh_pre_scores),
            scores=twin.own(self.scores),
            fresh_scores=twin.own(self.fresh_scores),
            normalizing=twin.own(self.normalizing),
        )

    def __repr__(self) -> str:
        filters, scores = (*self.fresh_columnar, *self.fresh_scalar), self.fresh_scores
        fresh = dict.fromkeys([*(step.name for step in filters), *(step.name for step in scores)])
        return f"<Plan {self.cache!r}, afresh: {', '.join(fresh) or 'nobody'}>"


def make_plan(profile: Profile, signature: Signature, pod: PendingPod, nodes: NodeTable, lower: LowerLayers) -> Plan:
    """Ask the plugins that sign the pod for all that they say before a node is looked at."""
    signs = {
        plugin.name for plugin, value in zip(profile.placement, signature.values, strict=True) if value is not None
    }
    state, before = CycleState(), dict[str, CycleState]()
    pre_filter: dict[str, PreFilterAnswer] = {}

    def noted(step: PreFilterStep) -> PreFilterStep:
        def ask(*asked: object) -> PreFilterAnswer:
            answer = pre_filter[step.name] = step.call(*asked)
            return answer

        return Step(step.plugin, ask)

    pre_filters = [noted(step) if step.name in signs else step for step in profile.pre_filter]
    pre_filter_result: PreFilterResult | None = None
    if all(step.name in signs for step in profile.pre_filter):
        # Plugins behind the one that ends it store nothing, as in kube-scheduler: PostFilter may notice.
        pre_filter_result = run_pre_filter(pre_filters, state, pod, nodes)
    else:
        for step in pre_filters:
            if step.name in signs:
                step.call(state, pod, nodes)
            else:
                before[step.name] = state.clone()
    # A pod that is rejected as a whole is never scored, and its plugins need not have stored what scoring wants.
    rejected = any(isinstance(answer, Status) and not _skips(answer) for answer in pre_filter.values())
    pre_score = {
        step.name: step.call(state, pod, nodes, nodes.order)
        for step in profile.pre_score
        if step.name in signs and not rejected
    }
    silent = {name for name, answer in pre_filter.items() if _skips(answer)}
    faults = {name: answer for name, answer in pre_score.items() if answer is not None and not _skips(answer)}
    unscored = faults.keys() | {name for name, answer in pre_score.items() if _skips(answer)}
    filters = tuple(step for step in profile.filters if step.name not in silent)
    scores = tuple(step for step in profile.scores if step.name not in unscored)
    fresh_filters = tuple(step for step in filters if step.name not in signs)
    signed_filters = [step for step in filters if step.name in signs]
    signed_scores = [step for step in scores if step.name in signs]
    below = _lower(profile, signature, signed_filters, signed_scores, nodes, lower)
    upper_filters = tuple(step for step in signed_filters if step.plugin.reads != "node")
    upper_scores = tuple(step for step in signed_scores if step.plugin.reads != "node")
    upper = Layer(nodes, nodes.pod_log, upper_filters, upper_scores, below) if upper_filters or upper_scores else None
    return Plan(
        profile=profile,
        signature=signature,
        state=state,
        before=before,
        pre_filter_result=pre_filter_result,
        # None is passed over that rejects the pod or narrows the nodes.
        pre_filters=tuple(
            step.saying(pre_filter[step.name]) if step.name in signs else step
            for step in profile.pre_filter
            if step.name not in signs or not _consents(pre_filter.get(step.name))
        ),
        filters=filters,
        fresh_columnar=tuple(step for step in fresh_filters if step.ask_rows is not None),
        fresh_scalar=tuple(step for step in fresh_filters if step.ask_rows is None),
        pre_score_fault=next(iter(faults.values()), None),
        fresh_pre_scores=tuple(
            step
            for step in takewhile(lambda step: step.name not in faults, profile.pre_score)
            if step.name not in signs
        ),
        scores=scores,
        fresh_scores=tuple(step for step in profile.scores if step.name not in signs),
        normalizing=tuple(step for step in signed_scores if step.normalize is not None),
        cache=upper or below,
        beside_nominated=BesideNominated(),
        nbytes=upper.nbytes if upper is not None else 0,
    )


def _skips(answer: PreFilterAnswer) -> bool:
    return isinstance(answer, Status) and answer.code == Code.SKIP


def _consents(answer: PreFilterAnswer) -> bool:
    return answer is None or _skips(answer)


def _lower(
    profile: Profile,
    signature: Signature,
    filters: Iterable[FilterStep],
    scores: Iterable[ScoreStep],
    nodes: NodeTable,
    layers: LowerLayers,
) -> Layer | None:
    """Return the layer of those of the steps that read only the Node object; None if there are none."""
    node_filters = tuple(step for step in filters if step.plugin.reads == "node")
    node_scores = tuple(step for step in scores if step.plugin.reads == "node")
    values = (
        value for plugin, value in zip(profile.placement, signature.values, strict=True) if plugin.reads == "node"
    )
    # Where other plugins reject the pod as a whole, some of these were not asked whether they have anything to say.
    key = (*values, *node_filters, *node_scores)
    layer = layers.get(key)
    if layer is None and (node_filters or node_scores):
        layer = layers[key] = Layer(nodes, nodes.node_log, node_filters, node_scores)
    return layer


class Layers:
    """The plans of one profile, least recently used first, within a budget of bytes.

    All are forgotten when the set of nodes changes.
    """

    def __init__(self, profile: Profile, nodes: NodeTable, budget: int) -> None:
        self._profile = profile
        self._nodes = nodes
        self._budget = budget
        self._plans: OrderedDict[Signature, Plan] = OrderedDict()
        self._lower = LowerLayers()
        self._upper_bytes = 0
        self._generation = nodes.generation

    def plan(self, signature: Signature, pod: PendingPod) -> Plan:
        """Return the plan for a pod of this signature, making it if it is not remembered."""
        if self._generation != self._nodes.generation:
            self.clear()
        plan = self._plans.get(signature)
        if plan is None:
            plan = self._plans[signature] = make_plan(self._profile, signature, pod, self._nodes, self._lower)
            self._upper_bytes += plan.nbytes
            while len(self._plans) > 1 and self.nbytes > self._budget:
                self._upper_bytes -= self._plans.popitem(last=False)[1].nbytes
        else:
            self._plans.move_to_end(signature)
        return plan

    @property
    def nbytes(self) -> int:
        """The memory of all columns."""
        return self._upper_bytes + sum(layer.nbytes for layer in self._lower.values())

    def clear(self) -> None:
        """Forget everything."""
        self._plans.clear()
        self._lower = LowerLayers()
        self._upper_bytes = 0
        self._generation = self._nodes.generation

    def __len__(self) -> int:
        return len(self._plans)

    def __repr__(self) -> str:
        return f"<Layers of {self._profile.name}: {len(self)} plans, {self.nbytes >> 10} KiB>"
