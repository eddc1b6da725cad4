"""Unintended requests: the fake API answers each, and none with a fault of its own."""

from __future__ import annotations

import msgspec
import pytest

from kframework.fake_api import calls
from kframework.fake_api.wire.documents import Data
from tests.fuzz.run import LIFE, send


@pytest.mark.parametrize("seed", range(4))
def test_fuzzed_requests_cause_no_server_fault(seed: int) -> None:
    report = send(seed, LIFE)
    assert not report.faults, "\n\n".join(map(str, report.faults))
    assert report.statuses[200] > 10 and report.statuses[201] > 10 and report.statuses[422] > 10, report.statuses


def test_fuzzed_requests_are_reproducible_by_seed() -> None:
    assert send(7, 100).statuses == send(7, 100).statuses


@pytest.mark.slow
def test_planted_fault_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(body: bytes) -> Data:
        data: Data = msgspec.json.decode(body)
        return data

    monkeypatch.setattr(calls, "decode_json_object", trusting)
    assert any("DecodeError" in fault.why for fault in send(1, LIFE).faults)
