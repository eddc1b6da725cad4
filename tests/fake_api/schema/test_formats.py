"""Integers of 64 bits, quantities and bytes are told from others as Kubernetes' own description has them."""

from __future__ import annotations

import pytest

from kframework.client.models import fields
from kframework.fake_api.schema.formats import bits, is_bytes, is_quantity


@pytest.mark.parametrize(
    ("model", "field", "found"),
    [
        ("V1DeploymentSpec", "replicas", 32),
        ("V1PodSpec", "terminationGracePeriodSeconds", 64),
        ("V1CertificateSigningRequestSpec", "expirationSeconds", 32),
        ("V1TokenRequestSpec", "expirationSeconds", 64),
        ("CoreV1Event", "count", 32),
    ],
)
def test_bits(model: str, field: str, found: int) -> None:
    assert bits(model, field) == found


@pytest.mark.parametrize(
    ("model", "field", "found"),
    [
        ("V1ResourceRequirements", "limits", True),
        ("V1EnvVar", "value", False),
        ("V1DeviceCapacity", "value", True),
        ("V1LimitRangeSpec", "limits", False),
        ("V1EmptyDirVolumeSource", "sizeLimit", True),
        ("V1CapacityRequestPolicy", "validValues", True),
        ("V1PolicyRule", "resources", False),
        ("V1DeviceClaimConfiguration", "requests", False),
    ],
)
def test_quantities(model: str, field: str, found: bool) -> None:
    assert is_quantity(model, field, fields(model)[field]) == found


@pytest.mark.parametrize(
    ("model", "field", "found"),
    [("V1Secret", "data", True), ("V1ConfigMap", "data", False), ("V1ConfigMap", "binaryData", True)],
)
def test_bytes(model: str, field: str, found: bool) -> None:
    assert is_bytes(model, field) == found
