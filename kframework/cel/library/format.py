"""Kubernetes' library of named formats: object names, labels, UUIDs, dates."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from kframework.cel.functions import function, method
from kframework.cel.library.url import is_url
from kframework.cel.values import NONE, Opaque, Optional
from kframework.objects.syntax import Messages, dns_1035_label, dns_label, dns_subdomain, label_value, qualified_name

_DATE_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))"  # kube-openapi's, dot and all


@dataclass(frozen=True, slots=True)
class Format(Opaque):
    """A format as a value; formats are equal if their names are."""

    name: str
    problems: Callable[[str], Messages] = field(compare=False)
    longest_pattern: int = field(compare=False)
    type_name = "kubernetes.NamedFormat"


def _prefix(problems: Callable[[str], Messages]) -> Callable[[str], Messages]:
    """Return the problems of a prefix of a name, which may end in a dash."""
    return lambda text: problems(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _check(test: Callable[[str], bool], problem: str) -> Callable[[str], Messages]:
    return lambda text: () if test(text) else (problem,)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII):
        return False
    try:
        date.fromisoformat(text if not text.startswith("0000") else f"2000{text[4:]}")
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    if len(text) < 4:
        return False
    day, _, time = text.lower().partition("t")
    match = re.fullmatch(_DATE_TIME, time, re.ASCII)
    if match is None or not _is_date(day):
        return False
    return int(match[1]) < 24 and int(match[2]) < 60 and int(match[3]) < 60


_UUID = re.compile("[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE)

FORMATS = {
    "dns1123Label": Format("DNS1123Label", dns_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", dns_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", dns_1035_label, 30),
    "qualifiedName": Format("QualifiedName", qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _prefix(dns_label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _prefix(dns_subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _prefix(dns_1035_label), 30),
    "labelValue": Format("LabelValue", label_value, 40),
    "uri": Format("URI", _check(is_url, "invalid URI for request"), 1103),
    "uuid": Format("uuid", _check(lambda text: bool(_UUID.fullmatch(text)), "does not match the UUID format"), 85),
    "byte": Format("byte", _check(_is_base64, "invalid base64"), 84),
    "date": Format("date", _check(_is_date, "invalid date"), 71),
    "datetime": Format("datetime", _check(_is_date_time, "invalid datetime"), 71),
}


def _validate(format: Format, text: str) -> Optional:
    problems = format.problems(text)
    return Optional(list(problems)) if problems else NONE


OVERLOADS = [
    overload
    for name, format in FORMATS.items()
    for overload in function(f"format.{name}", f"-> {Format.type_name}", apply=lambda value=format: value)
]
OVERLOADS += [
    *function(
        "format.named",
        f"string -> optional({Format.type_name})",
        apply=lambda name: Optional(FORMATS[name]) if name in FORMATS else NONE,
    ),
    *method("validate", f"{Format.type_name}, string -> optional(list(string))", apply=_validate),
]
