"""Statuses, deletions and warnings are handed to the host under a key each; what fails for good is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

import pytest
from kframework_batch.background_writes import BackgroundWrites
from kframework_batch.testing import make_group, make_queue, make_task

from kframework.core.host import Host
from kframework.engine import EngineMessage
from kframework.errors import ClusterError
from kframework.objects import ApiObject, Event, Pod


class Desk:
    """A host that makes the newest call of each key when it is run, and the API that is called, which may refuse."""

    def __init__(self, refusal: ClusterError | None = None) -> None:
        self.refusal = refusal
        self.calls: list[object] = []
        self.waiting: dict[str, tuple[Callable[[], Awaitable[object]], Callable[[ClusterError], None]]] = {}
        self.reports: list[EngineMessage] = []
        self.writes = BackgroundWrites(cast("Host", self), self.reports.append)

    @property
    def api(self) -> Desk:
        return self

    def write(self, key: str, call: Callable[[], Awaitable[object]], refused: Callable[[ClusterError], None]) -> None:
        self.waiting[key] = call, refused

    async def run(self) -> None:
        for call, refused in self.waiting.values():
            try:
                await call()
            except ClusterError as error:
                refused(error)

    async def patch_status(
        self, kind: type[ApiObject], name: str, patch: Mapping[str, object], namespace: str = "", *, uid: str = ""
    ) -> None:
        self._call((name, dict(patch)))

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        assert kind is Pod and uid
        self._call(("delete", name))

    async def create(self, obj: ApiObject) -> None:
        assert isinstance(obj, Event)
        self._call((obj.reason, obj.note, obj.regarding.api_version, obj.regarding.kind))

    def _call(self, what: object) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append(what)


GROUP = make_group("g")


def desk_after(act: Callable[[BackgroundWrites], None], refusal: int | None = None) -> Desk:
    """Run what is written to its end, refused with this status if there is one."""
    desk = Desk(None if refusal is None else ClusterError("no", status=refusal))
    act(desk.writes)
    asyncio.run(desk.run())
    return desk


def reported(desk: Desk) -> list[str]:
    return [type(report).__name__ for report in desk.reports]


def test_latest_status_of_an_object_is_written() -> None:
    def write(writes: BackgroundWrites) -> None:
        for phase in ("Pending", "Inqueue", "Running"):
            writes.write_status(GROUP, {"phase": phase})
        writes.write_status(make_queue("q"), {"state": "Open"})

    desk = desk_after(write)
    assert (desk.calls, desk.reports) == ([("g", {"phase": "Running"}), ("q", {"state": "Open"})], [])


@pytest.mark.parametrize(("status", "logged"), [(404, False), (409, False), (403, True), (500, True)])
@pytest.mark.parametrize(("subject", "name"), [(GROUP, "PodGroup default/g"), (make_queue("q"), "Queue q")])
def test_status_that_cannot_be_written_is_reported_and_logged_unless_its_object_is_gone(
    subject: ApiObject, name: str, status: int, *, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    desk = desk_after(lambda writes: writes.write_status(subject, {}), status)
    assert reported(desk) == ["StatusNotWritten"]
    assert caplog.messages == [f"the status of {name} cannot be written: no"] * logged


@pytest.mark.parametrize(
    ("refusal", "reports"),
    [(None, []), (404, []), (409, ["EvictionFailed"]), (403, ["EvictionFailed"]), (500, ["EvictionFailed"])],
    ids=["gone", "gone by itself", "changed, or another pod of the name", "forbidden", "never"],
)
def test_victim_that_cannot_be_deleted_is_reported(refusal: int | None, reports: list[str]) -> None:
    desk = desk_after(lambda writes: writes.delete_victim(make_task("p", "g", node="n1")), refusal)
    assert reported(desk) == reports


def warn(writes: BackgroundWrites) -> None:
    writes.record_warning(GROUP, 1.0, "GangBroken", "it is")


def test_warnings_name_the_group_with_its_version_and_do_not_replace_each_other() -> None:
    def warn_twice(writes: BackgroundWrites) -> None:
        warn(writes)
        warn(writes)

    desk = desk_after(warn_twice)
    assert desk.calls == [("GangBroken", "it is", "scheduling.volcano.sh/v1beta1", "PodGroup")] * 2


@pytest.mark.parametrize(("status", "logged"), [(409, False), (403, True)], ids=["written before", "forbidden"])
def test_existing_warning_counts_as_written(status: int, *, logged: bool, caplog: pytest.LogCaptureFixture) -> None:
    assert desk_after(warn, status).reports == []
    assert caplog.messages == ["an event of g cannot be written: no"] * logged
