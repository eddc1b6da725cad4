"""Statuses are written one at a time and the latest last; victims go; what fails is tried again and then told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

import pytest
from kframework_batch.background_writes import BackgroundWrites
from kframework_batch.testing import make_group, make_queue, make_task

from kframework.clock import run_virtual
from kframework.core.effects import Host
from kframework.engine import OwnMessage
from kframework.errors import ClusterError
from kframework.objects import ApiObject, Event, Pod


class Desk:
    """An API that takes a second for each call, and fails as it is told to."""

    def __init__(self, *failures: ClusterError) -> None:
        self.failures = list(failures)
        self.calls: list[object] = []
        self.busy: set[str] = set()
        self.reports: list[OwnMessage] = []
        self.woken = 0
        self.writes = BackgroundWrites(cast("Host", self), self.reports.append, self._wake)
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def api(self) -> Desk:
        return self

    def spawn(self, coroutine: Coroutine[object, object, None], by: str) -> None:
        self.tasks.append(asyncio.ensure_future(cast("Coroutine[Any, Any, None]", coroutine)))

    async def patch_status(
        self, kind: type[ApiObject], name: str, patch: Mapping[str, object], namespace: str = "", *, uid: str = ""
    ) -> None:
        assert name not in self.busy, "two writes of one object at a time"
        self.busy.add(name)
        await self._call((name, dict(patch)))
        self.busy.discard(name)

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        assert kind is Pod and uid
        await self._call(("delete", name))

    async def create(self, obj: ApiObject) -> None:
        assert isinstance(obj, Event)
        await self._call((obj.reason, obj.note, obj.regarding.api_version, obj.regarding.kind))

    async def _call(self, what: object) -> None:
        await asyncio.sleep(1.0)
        if self.failures:
            self.busy.clear()
            raise self.failures.pop(0)
        self.calls.append(what)

    def _wake(self) -> None:
        self.woken += 1

    async def done(self) -> None:
        while self.tasks:
            await self.tasks.pop(0)
        assert self.writes.idle


GROUP = make_group("g")


def refused(status: int) -> ClusterError:
    return ClusterError("no", status=status)


def desk_after(act: Callable[[Desk, list[str]], None], *failures: ClusterError) -> tuple[Desk, list[str]]:
    """Let errands be run to their end; return what was called and what was told to have failed."""
    told: list[str] = []

    async def main() -> Desk:
        desk = Desk(*failures)
        act(desk, told)
        assert not desk.writes.idle
        await desk.done()
        told.extend(type(report).__name__ for report in desk.reports)
        return desk

    return run_virtual(main), told


def write(*phases: str) -> Callable[[Desk, list[str]], None]:
    def act(desk: Desk, told: list[str]) -> None:
        for phase in phases:
            desk.writes.write(GROUP, {"phase": phase})

    return act


def send(desk: Desk, told: list[str]) -> None:
    desk.writes.send_away(make_task("p", "g", node="n1"))


def test_of_statuses_that_come_too_fast_the_latest_is_written() -> None:
    desk, told = desk_after(write("Pending", "Inqueue", "Running"))
    assert (desk.calls, told) == ([("g", {"phase": "Running"})], [])


@pytest.mark.parametrize(
    ("failures", "written", "told"),
    [
        ([503, 0, 429], True, []),
        ([500] * 6, False, ["StatusNotWritten"]),
        ([403], False, ["StatusNotWritten"]),
        ([404], False, ["StatusNotWritten"]),
        ([409], False, ["StatusNotWritten"]),
    ],
    ids=["it passes", "it does not pass", "forbidden", "gone", "another one"],
)
def test_a_write_is_tried_again_while_that_may_help(failures: list[int], written: bool, told: list[str]) -> None:
    desk, said = desk_after(write("Running"), *map(refused, failures))
    assert (bool(desk.calls), said) == (written, told)


@pytest.mark.parametrize(("status", "logged"), [(404, False), (409, False), (403, True)])
@pytest.mark.parametrize(("subject", "name"), [(GROUP, "PodGroup default/g"), (make_queue("q"), "Queue q")])
def test_a_status_that_cannot_be_written_is_told_unless_its_object_is_gone(
    subject: ApiObject, name: str, status: int, *, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    desk_after(lambda desk, told: desk.writes.write(subject, {}), refused(status))
    assert caplog.messages == [f"the status of {name} cannot be written: no"] * logged


@pytest.mark.parametrize(
    ("failures", "told"),
    [
        ([], []),
        ([503], []),
        ([404], []),
        ([409], ["EvictionFailed"]),
        ([403], ["EvictionFailed"]),
        ([500] * 6, ["EvictionFailed"]),
    ],
    ids=["gone", "at the second try", "gone by itself", "changed, or another pod of the name", "forbidden", "never"],
)
def test_a_victim_that_cannot_be_deleted_is_told(failures: list[int], told: list[str]) -> None:
    desk, said = desk_after(send, *map(refused, failures))
    assert said == told
    assert repr(desk.writes) == "<BackgroundWrites: 0 under way>"


def test_events_name_the_group_with_its_version() -> None:
    def tell(desk: Desk, told: list[str]) -> None:
        desk.writes.tell(GROUP, 1.0, "GangBroken", "it is")
        desk.writes.tell(GROUP, 1.0, "GangBroken", "it is")

    desk, _ = desk_after(tell)
    assert desk.calls == [("GangBroken", "it is", "scheduling.volcano.sh/v1beta1", "PodGroup")] * 2


@pytest.mark.parametrize(("failures", "logged"), [([0, 409], False), ([403], True)], ids=["written", "forbidden"])
def test_an_event_that_is_there_already_was_written(
    failures: list[int], *, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    desk_after(lambda desk, told: desk.writes.tell(GROUP, 1.0, "GangBroken", "it is"), *map(refused, failures))
    assert caplog.messages == ["an event of g cannot be written: no"] * logged


def test_the_engine_is_woken_by_the_end_of_every_errand() -> None:
    def both(desk: Desk, told: list[str]) -> None:
        write("Running")(desk, told)
        send(desk, told)

    desk, _ = desk_after(both)
    assert (desk.woken, desk.reports) == (2, [])
