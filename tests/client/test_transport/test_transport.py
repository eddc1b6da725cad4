"""Requests and answers are plain values with HTTP's own defaults."""

from __future__ import annotations

import msgspec
import pytest

from kframework.client.transport import JSON, Request, Response


def test_request_without_a_body_accepts_json() -> None:
    request = Request(method="GET", path="/api")
    assert (request.query, request.body, request.content_type, request.accept) == ((), b"", JSON, JSON)
    assert request.timeout is None


def test_request_is_immutable() -> None:
    request = Request(method="GET", path="/api")
    with pytest.raises(AttributeError):
        request.path = "/other"  # type: ignore[misc]  # that it is refused is the point
    assert msgspec.structs.replace(request, path="/other") != request


def test_answers_do_not_share_their_headers() -> None:
    assert Response(200).headers is not Response(200).headers
