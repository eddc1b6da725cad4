"""Which names objects may have."""

from __future__ import annotations

import pytest

from kframework.errors import ClusterError
from kframework.fake_api.access import ClusterRole
from kframework.in_memory.store import check_name
from kframework.objects import ApiObject, Namespace, ObjectMeta, Pod, Service, StatefulSet

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Pod, "a"),
        (Pod, "web-0.1"),
        (Pod, "x" * 253),
        (Service, "0-web"),
        (Namespace, "x" * 63),
        (ClusterRole, "system:Node_a"),
    ],
)
def test_valid_name_is_accepted(kind: type[ApiObject], name: str) -> None:
    subject = kind(metadata=ObjectMeta(name=name))
    assert check_name(subject) is subject


@pytest.mark.parametrize(
    ("kind", "name", "complaints"),
    [
        (Pod, "Web", [SUBDOMAIN]),
        (Pod, "-web", [SUBDOMAIN]),
        (Pod, "web.", [SUBDOMAIN]),
        (Pod, "a..b", [SUBDOMAIN]),
        (Pod, "a.-b", [SUBDOMAIN]),
        (Pod, "web\n", [SUBDOMAIN]),
        (Pod, "x" * 254, ["must be no more than 253 bytes"]),
        (Pod, "_" * 254, ["must be no more than 253 bytes", SUBDOMAIN]),
        (Namespace, "a_b", [LABEL]),
        (Service, "a.b", ["must not contain dots"]),
        (StatefulSet, "x" * 64, ["must be no more than 63 bytes"]),
        (ClusterRole, "a/b%", ["may not contain '/'", "may not contain '%'"]),
        (ClusterRole, "..", ["may not be '..'"]),
    ],
)
def test_invalid_name_is_rejected(kind: type[ApiObject], name: str, complaints: list[str]) -> None:
    with pytest.raises(ClusterError) as caught:
        check_name(kind(metadata=ObjectMeta(name=name)))
    said = [f'metadata.name: Invalid value: "{name:.253}": {why}' for why in complaints]
    message = str(caught.value)
    assert message.partition(" is invalid: ")[2] == (said[0] if len(said) == 1 else f"[{', '.join(said)}]")
    assert [cause["field"] for cause in caught.value.causes] == ["metadata.name"] * len(complaints)
