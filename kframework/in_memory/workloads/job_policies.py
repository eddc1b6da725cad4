"""What a job's policies make of failed pods and of succeeded indexes; pure functions."""

from __future__ import annotations

from typing import NamedTuple

from kframework.in_memory.workloads.job_indexes import Intervals, in_common, read, total
from kframework.objects import (
    ContainerStatus,
    OnExitCodes,
    Pod,
    PodFailurePolicy,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)


class Consequence(NamedTuple):
    """What follows from a failed pod, and what is said of a job that fails for it."""

    action: str
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether the failure is one of those that a job may have only so many of."""
        return self.action != "Ignore"


def consequence(policy: PodFailurePolicy | None, pod: Pod) -> Consequence:
    """Return what follows from a failed pod."""
    for place, rule in enumerate(policy.rules if policy is not None else ()):
        reason = _reason(rule, pod)
        if reason:
            return Consequence(rule.action, f"{reason} matching {rule.action} rule at index {place}")
    return Consequence("Count")


def _reason(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Say why a rule is about a pod; "" if it is not."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        status = pod.status
        for each in (*status.container_statuses, *status.init_container_statuses):
            code = _matching_code(rule.on_exit_codes, each)
            if code:
                return f"Container {each.name} for pod {name} failed with exit code {code}"
        return ""
    wanted = {(each.type, each.status) for each in rule.on_pod_conditions}
    met = (each.type for each in pod.status.conditions if (each.type, each.status) in wanted)
    return f"Pod {name} has condition {kind}" if (kind := next(met, "")) else ""


def _matching_code(rule: OnExitCodes, status: ContainerStatus) -> int:
    """Return the code with which a container has failed, 0 if it has not or the rule is not about it."""
    ended = status.state.terminated if status.state is not None else None
    if ended is None or rule.container_name not in (None, status.name):
        return 0
    return ended.exit_code if (ended.exit_code in rule.values) == (rule.operator == "In") else 0


def is_success(policy: SuccessPolicy | None, completions: int, succeeded: Intervals) -> str:
    """Say which rule makes a job succeed with the indexes that have succeeded; "" if none does."""
    for place, rule in enumerate(policy.rules if policy is not None and succeeded else ()):
        if _is_met(rule, completions, succeeded):
            return f"Matched rules at index {place}"
    return ""


def _is_met(rule: SuccessPolicyRule, completions: int, succeeded: Intervals) -> bool:
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and total(succeeded) >= rule.succeeded_count
    required = read(rule.succeeded_indexes, completions)
    count = in_common(required, succeeded)
    enough = rule.succeeded_count is not None and count >= rule.succeeded_count
    return bool(required) and (count == total(required) or enough)
