"""Syntax of names, labels and ports: each function returns the errors of a text, in Kubernetes' words."""

from __future__ import annotations

import re
from functools import lru_cache

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_NO_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character"
)
_NO_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character"
)
_NO_DNS_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character"
)
_NO_KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_NO_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character"
)
_NO_CONFIG_KEY = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"

Messages = tuple[str, ...]


@lru_cache(maxsize=4096)
def dns_label(text: str) -> Messages:
    """Validate the name of a container, a volume, a namespace."""
    found = _short(text, 63, "bytes")
    if re.fullmatch(_LABEL, text):
        return found
    has_dots = re.fullmatch(_SUBDOMAIN, text) is not None
    return (*found, "must not contain dots" if has_dots else _worded(_NO_LABEL, _LABEL, "my-name", "123-abc"))


@lru_cache(maxsize=4096)
def dns_subdomain(text: str) -> Messages:
    """Validate the name of most objects."""
    return (*_short(text, 253, "bytes"), *_shaped(text, _SUBDOMAIN, _NO_SUBDOMAIN, "example.com"))


@lru_cache(maxsize=1024)
def dns_1035_label(text: str) -> Messages:
    """Validate the name of a Service."""
    return (*_short(text, 63, "characters"), *_shaped(text, _DNS_1035, _NO_DNS_1035, "my-name", "abc-123"))


@lru_cache(maxsize=1024)
def qualified_name(text: str) -> Messages:
    """Validate the key of a label, with or without a domain before it."""
    prefix, slash, name = text.rpartition("/")
    examples = ("MyName", "my.name", "123-abc")
    if "/" in prefix:
        said = f"a valid label key {_worded(_NO_KEY, _KEY, *examples)}"
        return (f"{said} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    found: list[str] = []
    if slash:
        found += (
            [f"prefix part {each}" for each in dns_subdomain(prefix)] if prefix else ["prefix part must be non-empty"]
        )
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_KEY, name):
        found.append(f"name part {_worded(_NO_KEY, _KEY, *examples)}")
    return tuple(found)


@lru_cache(maxsize=4096)
def label_value(text: str) -> Messages:
    """Validate the value of a label."""
    return (*_short(text, 63, "bytes"), *_shaped(text, f"({_KEY})?", _NO_VALUE, "MyValue", "my_value", "12345"))


@lru_cache(maxsize=1024)
def port_name(text: str) -> Messages:
    """Validate the name of a port."""
    rules = (
        (len(text) <= 15, "must be no more than 15 characters"),
        (re.fullmatch("[-a-z0-9]+", text), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (re.search("[a-z]", text), "must contain at least one letter (a-z)"),
        ("--" not in text, "must not contain consecutive hyphens"),
        (not text.startswith("-") and not text.endswith("-"), "must not begin or end with a hyphen"),
    )
    return tuple(said for holds, said in rules if not holds)


def port_number(number: int) -> Messages:
    """Validate the number of a port."""
    return () if 1 <= number <= 65535 else ("must be between 1 and 65535, inclusive",)


@lru_cache(maxsize=1024)
def env_name(text: str) -> Messages:
    """Validate the name of an environment variable."""
    said = "a valid environment variable name must consist only of printable ASCII characters other than '='"
    if not text:
        return ("must be non-empty",)
    return () if all(" " <= letter <= "~" and letter != "=" for letter in text) else (said,)


@lru_cache(maxsize=1024)
def config_key(text: str) -> Messages:
    """Validate a key of a ConfigMap or a Secret."""
    shaped = _shaped(text, "[-._a-zA-Z0-9]+", _NO_CONFIG_KEY, "key.name", "KEY_NAME", "key-name")
    found = (*_short(text, 253, "characters"), *shaped)
    if text in (".", ".."):
        return (*found, f"must not be '{text}'")
    return (*found, "must not start with '..'") if text.startswith("..") else found


def _short(text: str, longest: int, unit: str) -> Messages:
    return (f"must be no more than {longest} {unit}",) if len(text) > longest else ()


def _shaped(text: str, pattern: str, said: str, *examples: str) -> Messages:
    return () if re.fullmatch(pattern, text) else (_worded(said, pattern, *examples),)


def _worded(said: str, pattern: str, *examples: str) -> str:
    named = " or ".join(f"'{example}', " for example in examples)
    return f"{said} (e.g. {named}regex used for validation is '{pattern}')"
