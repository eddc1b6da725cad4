"""A missing right is logged once, reported while it is missing, and logged when granted."""

from __future__ import annotations

import logging

import pytest

from kframework.client.missing_rights import REPEAT_INTERVAL, MissingRights, RightsTransport, is_denial
from kframework.client.request_attributes import Attributes
from kframework.client.transport import Request, Response, User, service_account
from kframework.fake_api.access import access_denied
from kframework.process.http.statuses import NO_SUBJECT, failure
from tests.client.scripted import Scripted, happened, ok, refused, some

ACCOUNT = service_account("shop", "scheduler")
COMMAND = "kframework rbac --config FILE --namespace shop --name scheduler | kubectl apply -f -"

LEASE = Request(method="GET", path="/apis/coordination.k8s.io/v1/namespaces/shop/leases/mine")
NODES = Request(method="GET", path="/api/v1/nodes")
WATCH = Request(method="GET", path="/api/v1/nodes", query=(("watch", "true"),))


def bind(namespace: str = "default", pod: str = "web") -> Request:
    return Request(method="POST", path=f"/api/v1/namespaces/{namespace}/pods/{pod}/binding")


class Clock:
    """Does not move unless advanced."""

    time = 1000.0

    def now(self) -> float:
        return self.time


class Stage:
    """A client's rights, its clock, and what was said."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.clock = Clock()
        self.rights = MissingRights(self.clock)
        self._caplog = caplog

    def refused(self, request: Request, user: User = ACCOUNT) -> None:
        refusal = failure(access_denied(user, Attributes.from_request(request)), NO_SUBJECT)
        self.rights.record_answer(request, refusal.status, refusal.body)

    def answered(self, request: Request, status: int = 200, body: bytes = b"") -> None:
        self.rights.record_answer(request, status, body)

    def said(self) -> list[str]:
        """Return what was said since the last time."""
        lines = [f"{record.levelname}: {record.getMessage()}" for record in self._caplog.records]
        self._caplog.clear()
        return lines


@pytest.fixture
def stage(caplog: pytest.LogCaptureFixture) -> Stage:
    return Stage(caplog)


def test_line_names_the_rule_and_the_remedy(stage: Stage) -> None:
    stage.refused(LEASE)
    (line,) = stage.said()
    assert line == (
        "ERROR: no right to get leases.coordination.k8s.io in the namespace shop: leases.coordination.k8s.io "
        '"mine" is forbidden: User "system:serviceaccount:shop:scheduler" cannot get resource "leases" '
        'in API group "coordination.k8s.io" in the namespace "shop"; '
        f"grant it: {COMMAND}"
    )


def test_remedy_for_a_user_prints_the_needed_rights(stage: Stage) -> None:
    stage.refused(NODES, User("100% ann"))
    (line,) = stage.said()
    assert line.endswith("; grant it: kframework rbac --config FILE prints what 100% ann needs")


def test_command_is_that_of_the_scheduler(stage: Stage) -> None:
    stage.rights = MissingRights(stage.clock, "kframework batch rbac")
    stage.refused(NODES)
    (line,) = stage.said()
    assert "grant it: kframework batch rbac --config FILE" in line


def test_missing_right_is_logged_once_and_then_at_an_interval(stage: Stage) -> None:
    lines = []
    for _ in range(int(3 * REPEAT_INTERVAL)):
        stage.refused(NODES)
        lines += stage.said()
        stage.clock.time += 1.0
    assert len(lines) == 3


def test_each_right_has_its_own_log_format(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    for request in (NODES, WATCH, LEASE, bind(), bind(pod="other"), bind("other")):
        stage.refused(request)
    # Of lines in the same form a command writes only a few.
    assert len({record.msg for record in caplog.records}) == len(caplog.records) == 4


def test_granted_right_is_logged_once(stage: Stage) -> None:
    stage.refused(NODES)
    stage.said()
    stage.answered(WATCH)
    assert stage.said() == []
    stage.answered(NODES)
    stage.answered(NODES)
    assert stage.said() == ["NOTICE: granted: list nodes"]
    stage.refused(NODES)
    assert len(stage.said()) == 1


def test_right_in_one_namespace_is_none_in_another(stage: Stage) -> None:
    stage.refused(bind("a"))
    stage.said()
    stage.answered(bind("b"))
    assert stage.said() == []
    stage.answered(bind("a", "other"))
    assert stage.said() == ["NOTICE: granted: create pods/binding in the namespace a"]


@pytest.mark.parametrize("status", [200, 201, 400, 404, 409, 410, 422])
def test_answer_of_any_kind_shows_that_there_is_the_right(stage: Stage, status: int) -> None:
    stage.refused(NODES)
    stage.answered(NODES, status)
    assert stage.rights.problem() is None


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 503, 504])
def test_answer_without_authorization_does_not_show_a_right(stage: Stage, status: int) -> None:
    stage.refused(NODES)
    stage.answered(NODES, status)
    assert stage.rights.problem() is not None


@pytest.mark.parametrize(
    "message",
    [
        'pods "web" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1',
        'events "web.1" is forbidden: unable to create new content in namespace a because it is being terminated',
        "",
    ],
)
def test_rejection_by_admission_is_no_missing_right(stage: Stage, message: str) -> None:
    stage.answered(bind(), 403, refused(403, "Forbidden", message).body)
    stage.answered(bind(), 403, b"<html>no</html>")
    assert (stage.said(), stage.rights.problem(), is_denial(message)) == ([], None, False)


def test_problem_names_the_rights_that_scheduling_needs(stage: Stage) -> None:
    assert stage.rights.problem() is None
    for request in (NODES, LEASE, bind()):
        stage.refused(request)
    missing = (
        "create pods/binding in the namespace default, get leases.coordination.k8s.io in the namespace shop, list nodes"
    )
    assert stage.rights.problem() == f"no right to {missing}; grant it: {COMMAND}"


@pytest.mark.parametrize(
    "wanted",
    [
        Request(method="POST", path="/apis/events.k8s.io/v1/namespaces/a/events"),
        Request(method="PATCH", path="/api/v1/namespaces/a/pods/web/status"),
        Request(method="DELETE", path="/api/v1/namespaces/a/pods/web"),
        Request(method="GET", path="/apis/example.com/v1/teams/web"),
        Request(
            method="GET",
            path="/apis/coordination.k8s.io/v1/namespaces/shop/leases",
            query=(("watch", "true"), ("fieldSelector", "metadata.name=mine")),
        ),
    ],
    ids=lambda request: f"{request.method} {request.path}",
)
def test_other_missing_rights_are_only_logged(stage: Stage, wanted: Request) -> None:
    stage.refused(wanted)
    assert len(stage.said()) == 1
    assert stage.rights.problem() is None


def test_denial_is_forgotten_when_not_repeated(stage: Stage) -> None:
    stage.refused(bind())
    stage.clock.time += REPEAT_INTERVAL - 1
    stage.refused(bind("other"))
    stage.clock.time += REPEAT_INTERVAL - 1
    assert stage.rights.problem() == f"no right to create pods/binding in the namespace other; grant it: {COMMAND}"
    stage.clock.time += 1
    assert stage.rights.problem() is None


def refusal(request: Request) -> Response:
    return failure(access_denied(ACCOUNT, Attributes.from_request(request)), NO_SUBJECT)


@pytest.mark.anyio
async def test_requests_and_streams_pass_and_their_answers_are_noted(stage: Stage) -> None:
    event = happened("ADDED", some("c", 6))
    inner = Scripted(refusal(NODES), refusal(WATCH), ok({"a": 1}), [event])
    watch = RightsTransport(inner, stage.rights)
    assert (await watch.send(NODES)).status == 403
    async with watch.stream(WATCH) as stream:
        assert stream.status == 403
        assert [line async for line in stream.lines] == [refusal(WATCH).body]
    assert stage.rights.problem() == f"no right to list nodes, watch nodes; grant it: {COMMAND}"
    assert (await watch.send(NODES)).body == b'{"a":1}'
    assert stage.rights.problem() == f"no right to watch nodes; grant it: {COMMAND}"
    async with watch.stream(WATCH) as stream:
        assert [line async for line in stream.lines] == [event]
    assert stage.rights.problem() is None
    assert inner.requests == [NODES, WATCH, NODES, WATCH]
