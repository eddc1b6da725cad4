"""Tolerations and taints."""

from __future__ import annotations

import pytest

from kframework.objects.node import Taint
from kframework.objects.pod import Toleration
from kframework.objects.taints import first_untolerated, tolerates


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_comparison_operators_are_off(operator: str) -> None:
    taint = Taint(key="level", value="5", effect="NoSchedule")
    assert not any(tolerates(Toleration(key="level", operator=operator, value=value), taint) for value in "4569")


def test_first_untolerated_taint_of_the_effects_counts() -> None:
    soft, hard, evict = (Taint(key=effect, effect=effect) for effect in ("PreferNoSchedule", "NoSchedule", "NoExecute"))
    taints = (soft, hard, evict)
    effects = ("NoSchedule", "NoExecute")
    assert first_untolerated(taints, (), effects) == hard
    assert first_untolerated(taints, [Toleration(key="NoSchedule", operator="Exists")], effects) == evict
    assert first_untolerated(taints, iter([Toleration(operator="Exists")]), effects) is None
    assert first_untolerated(taints, (), ("PreferNoSchedule",)) == soft
    assert first_untolerated((), (), effects) is None
