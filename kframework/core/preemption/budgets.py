"""PodDisruptionBudgets: whose eviction breaks one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from kframework.objects import PodDisruptionBudget
from kframework.objects.label_selectors import Matcher, SelectorError, label_selector
from kframework.state.objects import ObjectStore
from kframework.state.pod_counts import LabelClass
from kframework.state.pods import PodInfo

#: For so many sets of label classes it is remembered how their budgets are charged.
_CHARGES = 1024


class _Budget:
    """A PodDisruptionBudget with its selector compiled."""

    __slots__ = ("allowed", "disrupted", "matches", "namespace")

    def __init__(self, budget: PodDisruptionBudget, matches: Matcher) -> None:
        self.namespace = budget.metadata.namespace
        self.matches = matches
        self.allowed = budget.status.disruptions_allowed
        self.disrupted = budget.status.disrupted_pods


class _Charge(NamedTuple):
    """Budgets that are charged together, whichever of the pods goes: the one that allows least speaks for all.

    So thousands of budgets over the same pods cost no more than one. Pods that are being disrupted are not charged.
    """

    allowed: int
    disrupted: Collection[str] = ()


class Budgets:
    """All PodDisruptionBudgets, and which of them cover the pods of a label class."""

    def __init__(self, store: ObjectStore[PodDisruptionBudget]) -> None:
        #: Counts the changes that may change an answer.
        self.changes: int = 0
        self._store = store
        self._compiled: list[_Budget] | None = None
        self._covering: WeakKeyDictionary[LabelClass, tuple[_Budget, ...]] = WeakKeyDictionary()
        self._charges: dict[tuple[LabelClass, ...], dict[LabelClass, list[tuple[int, _Charge]]]] = {}
        store.on_change(self._changed)

    def split(self, pods: Sequence[PodInfo]) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        """Part the pods whose eviction breaks a budget, if all are evicted in this order, from the others."""
        if not len(self._store):
            return (), pods
        charges = self._charges_of(tuple(dict.fromkeys(pod.label_class for pod in pods)))
        left: dict[int, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            charged = [each for each in charges[pod.label_class] if pod.name not in each[1].disrupted]
            for number, charge in charged:
                left[number] = left.get(number, charge.allowed) - 1
            (violating if any(left[number] < 0 for number, _ in charged) else others).append(pod)
        return violating, others

    def _charges_of(self, classes: tuple[LabelClass, ...]) -> dict[LabelClass, list[tuple[int, _Charge]]]:
        """Return what is charged for a pod of each of these classes, numbered."""
        found = self._charges.get(classes)
        if found is None:
            if len(self._charges) >= _CHARGES:
                self._charges.clear()
            found = self._charges[classes] = self._worked_out(classes)
        return found

    def _worked_out(self, classes: tuple[LabelClass, ...]) -> dict[LabelClass, list[tuple[int, _Charge]]]:
        covered: dict[_Budget, list[LabelClass]] = {}
        for pods in classes:
            for budget in self._covering_class(pods):
                covered.setdefault(budget, []).append(pods)
        charges: dict[tuple[tuple[LabelClass, ...], _Budget | None], _Charge] = {}
        for budget, alike in covered.items():
            together = (tuple(alike), budget if budget.disrupted else None)
            known = charges.get(together)
            if known is None or budget.allowed < known.allowed:
                charges[together] = _Charge(budget.allowed, budget.disrupted)
        found: dict[LabelClass, list[tuple[int, _Charge]]] = {pods: [] for pods in classes}
        for number, ((alike_classes, _), charge) in enumerate(charges.items()):
            for pods in alike_classes:
                found[pods].append((number, charge))
        return found

    def _covering_class(self, pods: LabelClass) -> tuple[_Budget, ...]:
        covering = self._covering.get(pods)
        if covering is None:
            if self._compiled is None:
                self._compiled = _compiled(self._store)
            covering = tuple(
                budget
                for budget in self._compiled
                if budget.namespace == pods.namespace and pods.labels and budget.matches(pods.labels)
            )
            self._covering[pods] = covering
        return covering

    def _changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if old is not None and new is not None and _says(old) == _says(new):
            return
        self.changes += 1
        self._compiled = None
        self._covering.clear()
        self._charges.clear()

    def __repr__(self) -> str:
        return f"<{len(self._store)} PodDisruptionBudgets>"


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
