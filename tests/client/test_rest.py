"""Paths of objects, errors in responses, and retries."""

from __future__ import annotations

import asyncio

import pytest

from kframework.client.rest import object_path, parse_status, response_error, send_with_retries
from kframework.client.transport import Request, Response
from kframework.clock import run_virtual
from kframework.errors import ClusterError
from kframework.objects import Event, Node, Pod, StatefulSet, kind_of
from kframework.objects.meta import ApiObject
from tests.client.scripted import NO_ANSWER, Answer, Scripted, ok, refused

REQUEST = Request(method="POST", path="/api/v1/x", body=b"{}")


@pytest.mark.parametrize(
    ("struct", "place", "path"),
    [
        (Pod, (), "/api/v1/pods"),
        (Pod, ("shop",), "/api/v1/namespaces/shop/pods"),
        (Pod, ("shop", "web"), "/api/v1/namespaces/shop/pods/web"),
        (Pod, ("", "web"), "/api/v1/namespaces/default/pods/web"),
        (Pod, ("shop", "web", "binding"), "/api/v1/namespaces/shop/pods/web/binding"),
        (Node, ("", "n1"), "/api/v1/nodes/n1"),
        (Node, ("ignored", "n1", "status"), "/api/v1/nodes/n1/status"),
        (StatefulSet, (), "/apis/apps/v1/statefulsets"),
        (Event, ("shop", "e.1"), "/apis/events.k8s.io/v1/namespaces/shop/events/e.1"),
        (Node, ("", "system:a"), "/api/v1/nodes/system:a"),
        (Pod, ("a/b", "../c?d"), "/api/v1/namespaces/a%2Fb/pods/..%2Fc%3Fd"),
    ],
)
def test_object_has_a_path(struct: type[ApiObject], place: tuple[str, ...], path: str) -> None:
    assert object_path(kind_of(struct), *place) == path


def asked(*answers: Answer) -> tuple[bytes | ClusterError, list[float]]:
    """Ask and tell what came of it, and when each request was sent."""
    transport = Scripted(*answers)

    async def main() -> bytes | ClusterError:
        try:
            return await send_with_retries(transport, REQUEST)
        except ClusterError as error:
            return error

    return run_virtual(main), transport.at


def test_answer_is_its_body() -> None:
    assert asked(ok({"a": 1})) == (b'{"a":1}', [0.0])
    assert asked(Response(201, b"x")) == (b"x", [0.0])


def test_request_is_retried_on_retry_after() -> None:
    busy, starting = refused(429, retry_after="2"), refused(503, retry_after="1")
    assert asked(busy, starting, ok(0)) == (b"0", [0.0, 2.0, 3.0])


def test_request_is_retried_ten_times_at_most() -> None:
    error, at = asked(*[refused(429, "TooManyRequests", "slow down", retry_after="1")] * 20)
    assert isinstance(error, ClusterError)
    assert (str(error), error.status, error.retryable) == ("slow down", 429, True)
    assert at == [float(second) for second in range(11)]


@pytest.mark.parametrize(
    "answer",
    [
        refused(429),
        refused(429, retry_after="tomorrow"),
        refused(409, retry_after="1"),
        refused(500),
        NO_ANSWER,
    ],
)
def test_final_response_is_not_retried(answer: Answer) -> None:
    error, at = asked(answer, ok(0))
    assert isinstance(error, ClusterError)
    assert at == [0.0]


def test_waiting_can_be_cancelled() -> None:
    async def main() -> None:
        transport = Scripted(refused(429, retry_after="1000"), ok(0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await send_with_retries(transport, REQUEST)
        assert len(transport.requests) == 1

    run_virtual(main)


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (404, False), (409, False), (410, False), (429, True), (500, True), (504, True)],
)
def test_error_has_the_message_of_its_status(status: int, retryable: bool) -> None:
    error = response_error(REQUEST, status, refused(status, "Because", "of this").body)
    assert (str(error), error.status, error.reason, error.retryable) == ("of this", status, "Because", retryable)


def test_unknown_path_is_not_found() -> None:
    error = response_error(REQUEST, 404, b"404 page not found\n")
    assert str(error).endswith(": HTTP status 404: 404 page not found")
    assert (error.status, error.reason, error.retryable) == (404, "NotFound", False)


def test_status_without_a_message_gets_one() -> None:
    assert str(response_error(REQUEST, 404, b'{"kind": "Status", "reason": "NotFound"}')) == "NotFound"
    assert str(response_error(REQUEST, 404, b'{"kind": "Status"}')) == "the server answered with status 404"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "POST /api/v1/x: HTTP status 502"),
        (b"<html>\n bad  gateway", "POST /api/v1/x: HTTP status 502: <html> bad gateway"),
        (b'{"kind": "Pod"}', 'POST /api/v1/x: HTTP status 502: {"kind": "Pod"}'),
        (b"\xff" + b"x" * 1000, "POST /api/v1/x: HTTP status 502: \N{REPLACEMENT CHARACTER}" + "x" * 199),
    ],
)
def test_error_quotes_a_response_that_is_no_status(body: bytes, text: str) -> None:
    error = response_error(REQUEST, 502, body)
    assert (str(error), error.status, error.retryable) == (text, 502, True)


def test_code_of_a_status_takes_precedence() -> None:
    error = parse_status(refused(410, "Expired", "too old").body, 200)
    assert error is not None
    assert (error.status, error.reason) == (410, "Expired")
