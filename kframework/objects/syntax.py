"""Syntax of names, labels and ports: each function returns the errors of a text, in Kubernetes' words."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character"
)
_DNS_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character"
)
_KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character"
)
_CONFIG_KEY_RULE = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"

Messages = tuple[str, ...]


@lru_cache(maxsize=4096)
def dns_label(text: str) -> Messages:
    """Validate the name of a container, a volume, a namespace."""
    found = _limit(text, 63, "bytes")
    if re.fullmatch(_LABEL, text):
        return found
    has_dots = re.fullmatch(_SUBDOMAIN, text) is not None
    return (
        *found,
        "must not contain dots" if has_dots else _describe_pattern(_LABEL_RULE, _LABEL, "my-name", "123-abc"),
    )


@lru_cache(maxsize=4096)
def dns_subdomain(text: str) -> Messages:
    """Validate the name of most objects."""
    return (*_limit(text, 253, "bytes"), *_match(text, _SUBDOMAIN, _SUBDOMAIN_RULE, "example.com"))


@lru_cache(maxsize=1024)
def dns_1035_label(text: str) -> Messages:
    return (
        *_limit(text, 63, "characters"),
        *_match(text, _DNS_1035, _DNS_1035_RULE, "my-name", "abc-123"),
    )


@lru_cache(maxsize=1024)
def qualified_name(text: str) -> Messages:
    """Validate the key of a label, with or without a domain before it."""
    prefix, slash, name = text.rpartition("/")
    examples = ("MyName", "my.name", "123-abc")
    if "/" in prefix:
        message = f"a valid label key {_describe_pattern(_KEY_RULE, _KEY, *examples)}"
        return (f"{message} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
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
        found.append(f"name part {_describe_pattern(_KEY_RULE, _KEY, *examples)}")
    return tuple(found)


@lru_cache(maxsize=4096)
def label_value(text: str) -> Messages:
    return (
        *_limit(text, 63, "bytes"),
        *_match(text, f"({_KEY})?", _VALUE_RULE, "MyValue", "my_value", "12345"),
    )


@lru_cache(maxsize=1024)
def port_name(text: str) -> Messages:
    rules = (
        (len(text) <= 15, "must be no more than 15 characters"),
        (re.fullmatch("[-a-z0-9]+", text), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (re.search("[a-z]", text), "must contain at least one letter (a-z)"),
        ("--" not in text, "must not contain consecutive hyphens"),
        (not text.startswith("-") and not text.endswith("-"), "must not begin or end with a hyphen"),
    )
    return tuple(message for holds, message in rules if not holds)


def port_number(number: int) -> Messages:
    return () if 1 <= number <= 65535 else ("must be between 1 and 65535, inclusive",)


def percentage(text: str) -> Messages:
    message = "a valid percent string must be a numeric string followed by an ending '%'"
    return _match(text, "[0-9]+%", message, "1%", "93%")


@lru_cache(maxsize=1024)
def env_name(text: str) -> Messages:
    message = "a valid environment variable name must consist only of printable ASCII characters other than '='"
    if not text:
        return ("must be non-empty",)
    return () if all(" " <= letter <= "~" and letter != "=" for letter in text) else (message,)


@lru_cache(maxsize=1024)
def config_key(text: str) -> Messages:
    """Validate a key of a ConfigMap or a Secret."""
    shaped = _match(text, "[-._a-zA-Z0-9]+", _CONFIG_KEY_RULE, "key.name", "KEY_NAME", "key-name")
    found = (*_limit(text, 253, "characters"), *shaped)
    if text in (".", ".."):
        return (*found, f"must not be '{text}'")
    return (*found, "must not start with '..'") if text.startswith("..") else found


def _limit(text: str, longest: int, unit: str) -> Messages:
    return (f"must be no more than {longest} {unit}",) if len(text) > longest else ()


def _match(text: str, pattern: str, message: str, *examples: str) -> Messages:
    return () if re.fullmatch(pattern, text) else (_describe_pattern(message, pattern, *examples),)


def _describe_pattern(message: str, pattern: str, *examples: str) -> str:
    named = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {named}regex used for validation is '{pattern}')"


def ip_address(address: str) -> Messages:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return ("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",)
    return ()
