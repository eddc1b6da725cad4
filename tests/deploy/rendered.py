"""What `kubectl apply -k deploy` applies: the manifests as kustomize makes them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.examples.clean_environment import ROOT

__all__ = ["rendered", "the_rendered"]


@cache
def rendered(directory: Path = ROOT / "deploy") -> tuple[dict[str, Any], ...]:
    """Return all objects, as the kustomize of whichever kubectl there is makes them."""
    made = subprocess.run(["kubectl", "kustomize", directory], capture_output=True, text=True, check=True)
    return tuple(yaml.safe_load_all(made.stdout))


def the_rendered(kind: str) -> dict[str, Any]:
    """Return the only object of a kind."""
    (found,) = (each for each in rendered() if each["kind"] == kind)
    return found
