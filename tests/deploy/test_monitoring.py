"""The dashboard asks for metrics that there are, and Prometheus is let in to where they are."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kframework.observe.metrics.families import FAMILIES
from tests.deploy.test_manifests import CONTAINER, POD, the
from tests.examples.clean_environment import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana-dashboard.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES: list[str] = [target["expr"] for panel in PANELS for target in panel["targets"]]

#: The labels that each series has: those of its family, and those that Prometheus adds.
LABELS: dict[str, set[str]] = {
    name: {*family.labels, *more, "job", "instance"}
    for family in FAMILIES
    for name, more in (
        [(f"{family.name}_bucket", ["le"]), (f"{family.name}_sum", []), (f"{family.name}_count", [])]
        if family.type == "histogram"
        else [(family.name, [])]
    )
} | {name: {"job", "instance"} for name in ("process_cpu_seconds_total", "process_resident_memory_bytes")}

_SERIES = re.compile(r"\b(\w+)\{([^}]*)\}")


def unknown(query: str) -> list[str]:
    """List the series of a query that there are not, and the labels that its series have not."""
    problems, known = list[str](), set[str]()
    for name, matchers in _SERIES.findall(query):
        known |= LABELS.get(name, set())
        asked = set(re.findall(r"(\w+)=", matchers))
        problems += [name] if name not in LABELS else sorted(asked - LABELS[name])
    grouped = {label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", query) for label in labels.split(",")}
    return problems + sorted(grouped - known)


@pytest.mark.parametrize("query", QUERIES)
def test_queries_use_existing_series(query: str) -> None:
    assert _SERIES.search(query)
    assert unknown(query) == []


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_legend_shows_labels_that_are_left(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        left = re.findall(r"\bby \(([^)]*)\)", target["expr"])
        labels = {label.strip() for label in left[0].split(",")} if left else {"instance", "name"}
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels


def test_unknown_series_and_labels_are_reported() -> None:
    assert unknown('sum by (colour) (rate(scheduler_pods{job="x"}[5m]))') == ["scheduler_pods", "colour"]
    assert unknown('scheduler_pending_pods{queues="active"}') == ["queues"]


@pytest.mark.tool("promtool")
def test_promtool_understands_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m").replace("$job", ".*")}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    check = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
    assert f"{len(QUERIES)} rules found" in check.stdout


def test_panels_have_ids_of_their_own_and_do_not_cover_each_other() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_pods_announce_their_metrics() -> None:
    (port,) = CONTAINER["ports"]
    assert POD["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port["containerPort"]),
        "prometheus.io/path": "/metrics",
    }


def test_only_prometheus_is_admitted() -> None:
    (port,) = CONTAINER["ports"]
    (rule,) = the("NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": port["containerPort"]}]
    (who,) = rule["from"]
    # Both at once: such a pod in such a namespace.
    assert who.keys() == {"namespaceSelector", "podSelector"}
    assert who["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}
