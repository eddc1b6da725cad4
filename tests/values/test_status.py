"""Verdicts: kube-scheduler's codes, their names, and what counts as a rejection."""

from __future__ import annotations

import pytest

from kframework.values.status import Code, Skip, Status, Wait, error, unresolvable, unschedulable


@pytest.mark.parametrize(
    ("number", "title", "rejected"),
    [
        (0, "Success", False),
        (1, "Error", False),
        (2, "Unschedulable", True),
        (3, "UnschedulableAndUnresolvable", True),
        (4, "Wait", False),
        (5, "Skip", False),
        (6, "Pending", True),
    ],
)
def test_codes_equal_those_of_kube_scheduler(number: int, title: str, rejected: bool) -> None:
    code = Code(number)
    assert (code.title, code.is_rejected, Status(code).is_rejected) == (title, rejected, rejected)


def test_all_codes_are_compared() -> None:
    assert [code.value for code in Code] == list(range(7))


@pytest.mark.parametrize(("reasons", "message"), [((), ""), (("a",), "a"), (("a", "b"), "a, b")])
def test_message_joins_the_reasons(reasons: tuple[str, ...], message: str) -> None:
    assert unschedulable(*reasons).message == message


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (unschedulable("no"), Code.UNSCHEDULABLE),
        (unresolvable("no"), Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        (error("no"), Code.ERROR),
    ],
)
def test_status_functions_return_their_codes(status: Status, code: Code) -> None:
    assert status == Status(code, ("no",))


def test_skip_has_no_reasons() -> None:
    assert Status(Code.SKIP) == Skip


def test_status_is_stamped_with_its_plugin() -> None:
    status = unschedulable("no")
    stamped = status.with_plugin("NodeName")
    assert (stamped.plugin, stamped.code, stamped.reasons) == ("NodeName", status.code, status.reasons)
    assert stamped.with_plugin("NodeName") is stamped
    assert stamped.with_plugin("Other").plugin == "Other"
    assert status.plugin == ""


def test_statuses_are_compared_by_value() -> None:
    assert {unschedulable("no"): 1}[unschedulable("no")] == 1
    assert Wait(3.0) == Wait(3.0)
    with pytest.raises(AttributeError):
        unschedulable("no").plugin = "NodeName"  # type: ignore[misc]  # frozen
