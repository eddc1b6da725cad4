"""NodePolicies: objects of a kind of its own say who may use which nodes."""

from __future__ import annotations

from node_policy.policy import NodePolicies, NodePolicy, NodePolicySpec, NodePolicyStatus

__all__ = ["NodePolicies", "NodePolicy", "NodePolicySpec", "NodePolicyStatus"]
