"""The document names every metric with its type and labels, and no other."""

from __future__ import annotations

import re

from kframework.observe.metrics.attempts import EXTENSION_POINTS
from kframework.observe.metrics.families import FAMILIES
from tests.examples.clean_environment import ROOT

DOCUMENT = (ROOT / "docs/reference/metrics.md").read_text()
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<type>\w+) \| (?P<labels>[^|]*)\|", re.MULTILINE)


def test_every_metric_is_documented_with_type_and_labels() -> None:
    documented = {row["name"]: (row["type"], re.findall(r"`(\w+)`", row["labels"])) for row in ROW.finditer(DOCUMENT)}
    assert documented == {family.name: (family.type, list(family.labels)) for family in FAMILIES}


def test_every_extension_point_is_named() -> None:
    assert [label for label in EXTENSION_POINTS.values() if f"`{label}`" not in DOCUMENT] == []
