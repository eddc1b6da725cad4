"""Configurations of webhooks are refused with all that is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.webhooks.hooks import webhook_causes

HOOK = {
    "name": "look.example.com",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://localhost"},
}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"failurePolicy": "Ignore", "matchPolicy": "Exact", "timeoutSeconds": 30}, []),
        ({"name": ""}, ["name: Required value"]),
        ({"name": "Look"}, ['name: Invalid value: "Look": a lowercase RFC 1123 subdomain must consist of']),
        ({"name": "look.it"}, ['name: Invalid value: "look.it": should be a domain with at least three segments']),
        ({"admissionReviewVersions": []}, ["admissionReviewVersions: Required value: must specify one of v1, v1beta1"]),
        ({"failurePolicy": "Maybe"}, ['failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"']),
        ({"sideEffects": None}, ["sideEffects: Required value: must specify one of None, NoneOnDryRun"]),
        ({"sideEffects": "Some"}, ['sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"']),
        ({"timeoutSeconds": 31}, ["timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 sec"]),
        ({"clientConfig": {}}, ["clientConfig: Required value: exactly one of url or service is required"]),
        ({"clientConfig": {"url": "", "service": {}}}, ["clientConfig: Required value: exactly one of url or service"]),
        ({"matchConditions": [{"name": "x", "expression": "true"}]}, []),
        (
            {"matchConditions": [{"name": "x", "expression": "1"}, {"name": "x", "expression": "true"}]},
            [
                'matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int',
                'matchConditions[1].name: Duplicate value: "x"',
            ],
        ),
        (
            {"matchConditions": [{"name": "", "expression": " "}, {"name": "-", "expression": "true"}]},
            [
                "matchConditions[0].expression: Required value",
                "matchConditions[0].name: Required value",
                'matchConditions[1].name: Invalid value: "-": name part must consist of',
            ],
        ),
        (
            {"matchConditions": [{"name": f"c{each}", "expression": "true"} for each in range(65)]},
            ["matchConditions: Too many: 65: must have at most 64 items"],
        ),
    ],
)
def test_invalid_webhook_has_causes(changes: dict[str, Any], found: list[str]) -> None:
    causes = list(map(str, webhook_causes({"webhooks": [HOOK, HOOK | changes]})))
    assert len(causes) == len(found), causes
    for cause, beginning in zip(causes, found, strict=True):
        assert cause.startswith(f"webhooks[1].{beginning}")
