"""What plugin authors test with: pods and nodes in few words."""

from __future__ import annotations

from kframework.testing.builders import make_container, make_node, make_pod, make_taint, make_toleration

__all__ = ["make_container", "make_node", "make_pod", "make_taint", "make_toleration"]
