"""A server that does not answer, or rejects the credentials, is reported in one line until it answers again."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest

from kframework.client.reachability import UNREACHABLE_AFTER, Reachability, ReachabilityTransport
from kframework.client.transport import Request
from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.errors import ClusterError
from tests.client.scripted import NO_ANSWER, Answer, Scripted, ok, refused

SERVER = "https://s:6443 (context c, user u, kubeconfig f)"
GET = Request(method="GET", path="/api/v1/pods")
REFUSED = ClusterError("GET /api/v1/pods: cannot connect to s:6443: connection refused", status=0)
UNREACHABLE = (
    f"ERROR: {SERVER} does not answer: cannot connect to s:6443: connection refused; check that it runs, and the"
    " address (--kubeconfig, --context, --master); retrying"
)
REJECTED = (
    f"ERROR: {SERVER} rejects the credentials: log in again, or correct the user's token or certificate; retrying"
)
RECOVERED = f"NOTICE: {SERVER} answers again"


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def lines_after(
    caplog: pytest.LogCaptureFixture, *answers: Answer, pause: float = 0.0, watch: bool = False
) -> list[str]:
    caplog.set_level(logging.INFO)
    reachability = Reachability(LoopClock(asyncio.get_running_loop()))
    transport = ReachabilityTransport(Scripted(*answers), reachability, SERVER)
    for _ in answers:
        with suppress(ClusterError):
            if watch:
                async with transport.stream(GET) as stream:
                    async for _line in stream.lines:
                        pass
            else:
                await transport.send(GET)
        await asyncio.sleep(pause)
    return [f"{record.levelname}: {record.getMessage()}" for record in caplog.records]


async def test_unreachable_server_is_reported_once_until_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    answers = REFUSED, REFUSED, REFUSED, ok({}), ok({})
    assert await lines_after(caplog, *answers) == [UNREACHABLE, RECOVERED]


async def test_rejected_credentials_are_reported_once_until_they_are_accepted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = refused(401), refused(401), ok({})
    assert await lines_after(caplog, *answers) == [REJECTED, RECOVERED]


async def test_missing_answer_of_a_server_that_answers_others_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = ok({}), NO_ANSWER, NO_ANSWER, ok({}), NO_ANSWER, refused(500), NO_ANSWER
    assert await lines_after(caplog, *answers, pause=UNREACHABLE_AFTER - 1) == []


async def test_server_that_stops_to_answer_is_reported_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    answers = ok({}), REFUSED, REFUSED, REFUSED, ok({})
    assert await lines_after(caplog, *answers, pause=UNREACHABLE_AFTER) == [UNREACHABLE, RECOVERED]


async def test_watch_that_fails_counts_like_a_request(caplog: pytest.LogCaptureFixture) -> None:
    assert await lines_after(caplog, REFUSED, refused(401), [REFUSED], watch=True) == [UNREACHABLE, REJECTED, RECOVERED]
