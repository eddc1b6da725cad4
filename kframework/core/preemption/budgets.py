"""PodDisruptionBudgets: whose eviction breaks one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from kframework.objects import PodDisruptionBudget
from kframework.objects.label_selectors import Matcher, SelectorError, label_selector
from kframework.state.objects import ObjectStore
from kframework.state.pod_counts import LabelClass
from kframework.state.pods import PodInfo

#: For so many sets of covers it is remembered how their budgets are charged.
_CHARGES = 1024


class _Budget:
    """A PodDisruptionBudget with its selector compiled."""

    __slots__ = ("allowed", "disrupted", "matches", "namespace")

    def __init__(self, budget: PodDisruptionBudget, matches: Matcher) -> None:
        self.namespace = budget.metadata.namespace
        self.matches = matches
        self.allowed = budget.status.disruptions_allowed
        self.disrupted = budget.status.disrupted_pods


class _Cover:
    """The budgets that cover the pods of a label class; classes that the same ones cover share it."""

    __slots__ = ("__weakref__", "budgets")

    def __init__(self, budgets: tuple[_Budget, ...]) -> None:
        self.budgets = budgets


class _Charge(NamedTuple):
    """Budgets that are charged together, whichever of the pods goes: the one that allows least speaks for all.

    So thousands of budgets over the same pods cost no more than one. Pods that are being disrupted are not charged.
    """

    number: int
    allowed: int
    disrupted: Collection[str]


class Budgets:
    """All PodDisruptionBudgets, and which of them cover the pods of a label class."""

    def __init__(self, store: ObjectStore[PodDisruptionBudget]) -> None:
        #: Counts the changes that may change an answer.
        self.changes: int = 0
        self._store = store
        self._compiled: list[_Budget] | None = None
        self._covers: WeakKeyDictionary[LabelClass, _Cover] = WeakKeyDictionary()
        self._shared: WeakValueDictionary[tuple[_Budget, ...], _Cover] = WeakValueDictionary()
        self._charges: dict[tuple[_Cover, ...], dict[_Cover, list[_Charge]]] = {}
        store.on_change(self._changed)

    def split(self, pods: Sequence[PodInfo]) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        """Part the pods whose eviction breaks a budget, if all are evicted in this order, from the others."""
        if not len(self._store):
            return (), pods
        covers = [self._cover(pod.label_class) for pod in pods]
        charges = self._charges_of(tuple(dict.fromkeys(covers)))
        left: dict[int, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod, cover in zip(pods, covers, strict=True):
            charged = [charge for charge in charges[cover] if pod.name not in charge.disrupted]
            for charge in charged:
                left[charge.number] = left.get(charge.number, charge.allowed) - 1
            (violating if any(left[charge.number] < 0 for charge in charged) else others).append(pod)
        return violating, others

    def _charges_of(self, covers: tuple[_Cover, ...]) -> dict[_Cover, list[_Charge]]:
        """Return what is charged for a pod of each of these covers."""
        found = self._charges.get(covers)
        if found is None:
            if len(self._charges) >= _CHARGES:
                self._charges.clear()
            found = self._charges[covers] = _charges(covers)
        return found

    def _cover(self, pods: LabelClass) -> _Cover:
        cover = self._covers.get(pods)
        if cover is None:
            if self._compiled is None:
                self._compiled = _compiled(self._store)
            budgets = tuple(
                budget
                for budget in self._compiled
                if budget.namespace == pods.namespace and pods.labels and budget.matches(pods.labels)
            )
            cover = self._covers[pods] = self._shared.setdefault(budgets, _Cover(budgets))
        return cover

    def _changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if old is not None and new is not None and _says(old) == _says(new):
            return
        self.changes += 1
        self._compiled = None
        self._covers.clear()
        self._charges.clear()


def _charges(covers: tuple[_Cover, ...]) -> dict[_Cover, list[_Charge]]:
    covered: dict[_Budget, list[_Cover]] = {}
    for cover in covers:
        for budget in cover.budgets:
            covered.setdefault(budget, []).append(cover)
    least: dict[tuple[tuple[_Cover, ...], _Budget | None], _Budget] = {}
    for budget, alike in covered.items():
        together = (tuple(alike), budget if budget.disrupted else None)
        if budget.allowed < least.setdefault(together, budget).allowed:
            least[together] = budget
    found: dict[_Cover, list[_Charge]] = {cover: [] for cover in covers}
    for number, ((alike_covers, _), budget) in enumerate(least.items()):
        for cover in alike_covers:
            found[cover].append(_Charge(number, budget.allowed, budget.disrupted))
    return found


def _says(budget: PodDisruptionBudget) -> tuple[object, ...]:
    """Return all of a budget that counts here."""
    status = budget.status
    return (budget.spec.selector, status.disruptions_allowed, status.disrupted_pods.keys())


def _compiled(budgets: Iterable[PodDisruptionBudget]) -> list[_Budget]:
    """Compile the budgets that cover anything: an empty selector covers no pod, nor does one that cannot be read."""
    compiled = []
    for budget in budgets:
        try:
            selector = label_selector(budget.spec.selector)
        except SelectorError:
            continue
        if not selector.empty:
            compiled.append(_Budget(budget, selector.matches))
    return compiled
