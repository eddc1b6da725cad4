"""Selectors of classes and claims choose devices, and what they say is remembered."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest

from kframework.objects import DeviceClass, ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources import selection
from kframework.plugins.dynamic_resources.device_selectors import CompiledSelector
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.requests import RequestOption, request_options
from kframework.plugins.dynamic_resources.selection import SelectorEvaluator
from kframework.plugins.dynamic_resources.slices import PoolDevice, SliceView
from kframework.state.nodes import NodeTable
from kframework.testing import make_node
from kframework.values.feature_gates import FeatureGates

MODEL = "device.attributes['d'].model == 'a100'"
LARGE = "device.capacity['d'].memory.compareTo(quantity('10Gi')) > 0"


def device(driver: str = "d", **said: Any) -> PoolDevice:
    spec = {"driver": driver, "pool": {"name": "p"}, "perDeviceNodeSelection": True, "devices": [{"name": "x", **said}]}
    return SliceView(msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)).devices[0]


def asked(*of_claim: str, of_class: tuple[str, ...] = ()) -> RequestOption:
    written = [{"cel": {"expression": each}} for each in of_class]
    within = msgspec.convert({"metadata": {"name": "gpu"}, "spec": {"selectors": written}}, DeviceClass)
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "All",
        "selectors": [{"cel": {"expression": each}} for each in of_claim],
    }
    said = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    claim = msgspec.convert({"metadata": {"name": "c", "namespace": "n"}, "spec": said}, ResourceClaim)
    return request_options(claim, claim.spec.devices.requests[0], {"gpu": within})[0]


def selects(by: SelectorEvaluator, what: RequestOption, one: PoolDevice) -> bool:
    table = NodeTable()
    table.put(make_node("n1"))
    return by.matches(what, one, table[0])


A100: dict[str, Any] = {
    "attributes": {"model": {"string": "a100"}},
    "capacity": {"memory": {"value": "40Gi"}},
    "allNodes": True,
}


@pytest.mark.parametrize(
    ("said", "what", "chosen"),
    [
        (A100, asked(), True),
        (A100, asked(MODEL, LARGE), True),
        (A100, asked(MODEL, of_class=("device.driver == 'd'",)), True),
        (A100, asked(MODEL, of_class=("device.driver == 'e'",)), False),
        (A100, asked("false", "1 / 0 == 1"), False),
        ({**A100, "capacity": {"memory": {"value": "4Gi"}}}, asked(MODEL, LARGE), False),
        ({**A100, "allowMultipleAllocations": True}, asked("device.allowMultipleAllocations"), True),
        ({**A100, "allNodes": None, "nodeName": "n1"}, asked(MODEL), True),
        ({**A100, "allNodes": None, "nodeName": "n2"}, asked(MODEL), False),
    ],
)
def test_selectors_choose_devices(said: dict[str, Any], what: RequestOption, chosen: bool) -> None:
    assert selects(SelectorEvaluator(), what, device(**said)) is chosen


#: Since 1.37 a failure names the device.
ON_DEVICE = " on device d/p/x"
BAD_TERM = {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}


@pytest.mark.parametrize(
    ("said", "what", "text"),
    [
        (A100, asked("true", "nonsense"), "claim n/c: selector #1: CEL compile error: "),
        (A100, asked(of_class=("device.driver",)), "class gpu: selector #0: CEL compile error: "),
        (A100, asked("device.attributes['d'].size == 1"), f"claim n/c: selector #0{ON_DEVICE}: CEL runtime error: "),
        (
            {**A100, "attributes": {"v": {"version": "1"}}},
            asked("true"),
            f"claim n/c: selector #0{ON_DEVICE}: CEL runtime error: ",
        ),
        ({"nodeSelector": {"nodeSelectorTerms": [BAD_TERM]}}, asked(), ""),
    ],
)
def test_selector_that_fails_is_an_error(said: dict[str, Any], what: RequestOption, text: str) -> None:
    by, one = SelectorEvaluator(), device(**said)
    for _ in range(2):
        with pytest.raises(AllocationError) as refused:
            selects(by, what, one)
        assert str(refused.value).startswith(text)


def test_failure_names_the_device_and_helps_with_missing_keys_since_1_37() -> None:
    missing = asked("device.attributes['d'].size == 1")
    with pytest.raises(AllocationError, match=r"^claim n/c: selector #0: CEL runtime error: no such key: size$"):
        selects(SelectorEvaluator(FeatureGates("1.36")), missing, device(**A100))
    with pytest.raises(AllocationError, match=r"#0 on device d/p/x: CEL .* no such key: size\. consider using CEL opt"):
        selects(SelectorEvaluator(), missing, device(**A100))


def test_devices_with_lists_can_be_selected_since_1_37() -> None:
    tagged = device(**A100 | {"attributes": {"tags": {"strings": ["red", "blue"]}}})
    red = asked("device.attributes['d'].tags.exists(tag, tag == 'red')")
    assert selects(SelectorEvaluator(), red, tagged)
    with pytest.raises(AllocationError, match="attribute tags: unsupported attribute value"):
        selects(SelectorEvaluator(FeatureGates("1.36")), asked("true"), tagged)


def test_expression_is_asked_once_about_devices_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    matches = CompiledSelector.matches

    def noted(self: CompiledSelector, subject: Any) -> bool:
        calls.append(self.expression)
        return matches(self, subject)

    monkeypatch.setattr(CompiledSelector, "matches", noted)
    by, alike = SelectorEvaluator(), [device(**A100), device(name="y", **A100), device(**A100 | {"allNodes": None})]
    different = [
        device(**A100, driver="e"),
        device(**A100 | {"attributes": {"model": {"string": "h100"}}}),
        device(**A100 | {"attributes": {"model": {"version": "1.0.0"}}}),
        device(**A100 | {"capacity": {"memory": {"value": "80Gi"}}}),
        device(**A100, allowMultipleAllocations=True),
    ]
    for one in (*alike, *alike, *different):
        selects(by, asked("true"), one)
    assert calls == ["true"] * 6
    assert by._expression.cache_info().currsize == 1


@pytest.mark.slow
def test_answers_go_with_devices_and_with_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MAX_EXPRESSIONS", 2)
    by, one = SelectorEvaluator(), device(**A100)
    for number in (0, 1, 0, 2):
        assert selects(by, asked(f"{number} == {number}"), one)
    assert by._expression.cache_info()[:2] == (1, 3)
    del one
    gc.collect()
    assert not by._expression("0 == 0")._answers
    assert by._expression.cache_info()[:2] == (2, 3)
