"""What may change in a request for a certificate, by its paths."""

from __future__ import annotations

import pytest

from kframework.clock import VirtualTimeLoop
from tests.fake_api.serving import MERGE, Served

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def test_a_request_for_a_certificate_is_approved_once() -> None:
    served = Served()
    stored = await served.ask("POST", REQUESTS, {"metadata": {"name": "a"}, "spec": {"request": "YQ=="}})
    assert stored["spec"]["username"] == "kubernetes-admin"
    approved = {"type": "Approved", "status": "True", "reason": "KubectlApprove"}
    body = stored | {"spec": {}, "status": {"conditions": [approved]}}
    told = await served.ask("PUT", f"{REQUESTS}/a/approval", body)
    assert told["spec"] == stored["spec"]
    assert told["status"]["conditions"][0].items() > approved.items()
    for path, conditions, why in (
        ("approval", [], 'Forbidden: updates may not remove a condition of type "Approved"'),
        (
            "approval",
            [approved, approved | {"type": "Denied"}],
            "Approved and Denied conditions are mutually exclusive",
        ),
        ("status", [approved | {"reason": "x"}], 'updates may not modify a condition of type "Approved"'),
        ("status", [approved | {"status": "False"}], 'status: Unsupported value: "False": supported values: "True"'),
    ):
        patch = {"status": {"conditions": conditions}}
        _, _, message = await served.refused("PATCH", f"{REQUESTS}/a/{path}", patch, content_type=MERGE)
        assert why in message
