"""Names, labels and ports are spelt as Kubernetes wants them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework.objects import syntax

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("check", "text", "found"),
    [
        (syntax.dns_label, "my-name", ()),
        (syntax.dns_label, "My_Name", (LABEL,)),
        (syntax.dns_label, "a" * 64, ("must be no more than 63 bytes",)),
        (syntax.dns_label, "a.b", ("must not contain dots",)),
        (syntax.dns_subdomain, "a.b-c.d", ()),
        (syntax.dns_1035_label, "abc", ()),
        (syntax.qualified_name, "example.com/My.Name", ()),
        (syntax.qualified_name, "-x", (KEY,)),
        (syntax.qualified_name, "", ("name part must be non-empty", KEY)),
        (syntax.qualified_name, "/x", ("prefix part must be non-empty",)),
        (syntax.qualified_name, "a" * 64, ("name part must be no more than 63 bytes",)),
        (syntax.label_value, "", ()),
        (syntax.label_value, "a" * 64, ("must be no more than 63 bytes",)),
        (syntax.port_name, "http", ()),
        (syntax.port_name, "80", ("must contain at least one letter (a-z)",)),
        (syntax.port_name, "-a--b", ("must not contain consecutive hyphens", "must not begin or end with a hyphen")),
        (syntax.env_name, "A B", ()),
        (syntax.env_name, "", ("must be non-empty",)),
        (syntax.config_key, "a.b", ()),
        (syntax.config_key, "..", ("must not be '..'",)),
    ],
)
def test_texts_are_valid_or_not(check: Callable[[str], tuple[str, ...]], text: str, found: tuple[str, ...]) -> None:
    assert check(text) == found


@pytest.mark.parametrize(
    ("check", "text", "beginning"),
    [
        (syntax.dns_subdomain, "A", "a lowercase RFC 1123 subdomain must consist of"),
        (syntax.dns_1035_label, "1a", "a DNS-1035 label must consist of"),
        (syntax.qualified_name, "a/b/c", "a valid label key must consist of"),
        (syntax.label_value, "a b", "a valid label must be an empty string or consist of"),
        (syntax.env_name, "A=B", "a valid environment variable name must consist only of printable ASCII"),
        (syntax.config_key, "a b", "a valid config key must consist of"),
    ],
)
def test_message_names_the_rule(check: Callable[[str], tuple[str, ...]], text: str, beginning: str) -> None:
    (said,) = check(text)
    assert said.startswith(beginning)


def test_ports_are_valid_or_not() -> None:
    assert syntax.port_number(80) == ()
    assert syntax.port_number(0) == syntax.port_number(65536) == ("must be between 1 and 65535, inclusive",)
