"""The metrics by name: kube-scheduler's own, with its labels and buckets, so that dashboards and alerts keep working.

A histogram of seconds is observed in nanoseconds. `docs/reference/metrics.md` describes each metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import accumulate, repeat
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec.structs import replace

from kframework.values.feature_gates import MINORS

Type = Literal["counter", "gauge", "histogram"]


class Family(msgspec.Struct, frozen=True):
    """All series of one name; `buckets` are upper bounds, without the last; `help` begins with the stability."""

    type: Type
    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bounds of buckets, multiplied step by step as in Go: their last digits are part of a series' name."""
    return tuple(accumulate(repeat(factor, count - 1), lambda bound, by: bound * by, initial=start))


_counter, _gauge, _histogram = partial(Family, "counter"), partial(Family, "gauge"), partial(Family, "histogram")

_FROM_1MS = exponential(0.001, 2, 15)
_FROM_100US = exponential(0.0001, 2, 12)
_FROM_10US = exponential(0.00001, 1.5, 20)
_REQUESTS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES = (64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)

# -- attempts ------------------------------------------------------------------------------------------------------

SCHEDULE_ATTEMPTS = _counter(
    "scheduler_schedule_attempts_total",
    "[STABLE] Attempts to schedule a pod by result: scheduled, unschedulable, or failed with an error.",
    ("result", "profile"),
)
SCHEDULING_ATTEMPT_DURATION = _histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "[STABLE] Duration of attempts, from the pop of the pod to its binding or failure.",
    ("result", "profile"),
    buckets=_FROM_1MS,
)
SCHEDULING_ALGORITHM_DURATION = _histogram(
    "scheduler_scheduling_algorithm_duration_seconds",
    "[BETA] Duration of the search for a node, with PostFilter if no node fits.",
    buckets=_FROM_1MS,
)
POD_SCHEDULING_ATTEMPTS = _histogram(
    "scheduler_pod_scheduling_attempts",
    "[STABLE] Number of attempts to bind a pod.",
    buckets=exponential(1, 2, 5),
)
POD_SCHEDULING_SLI_DURATION = _histogram(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "[BETA] Time from the first attempt that was possible until the pod was bound, over all its attempts.",
    ("attempts",),
    buckets=exponential(0.01, 2, 20),
)
POD_SCHEDULED_AFTER_FLUSH = _counter(
    "scheduler_pod_scheduled_after_flush_total",
    "[ALPHA] Pods bound by an attempt that no event caused, after too long in the unschedulable queue.",
)
PODGROUP_SCHEDULE_ATTEMPTS = _counter(
    "scheduler_podgroup_schedule_attempts_total",
    "[ALPHA] Attempts to schedule a PodGroup: scheduled, unschedulable, waiting_on_preemption, or error.",
    ("result", "profile"),
)
PODGROUP_SCHEDULING_ATTEMPT_DURATION = _histogram(
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "[ALPHA] Duration of attempts, from the pop of the group until its pods are handed to binding or requeued.",
    ("result", "profile"),
    buckets=_FROM_1MS,
)
PODGROUP_SCHEDULING_ALGORITHM_DURATION = _histogram(
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    "[ALPHA] Duration of the search for nodes for the pods of a group.",
    buckets=_FROM_1MS,
)
GENERATED_PLACEMENTS = _counter(
    "scheduler_generated_placements_total",
    "[ALPHA] Placements that were generated for groups.",
    ("profile",),
)
PLACEMENT_EVALUATIONS = _counter(
    "scheduler_placement_evaluations_total",
    "[ALPHA] Placements that were evaluated for groups: feasible if the group fits, else infeasible.",
    ("result", "profile"),
)
PLACEMENT_EVALUATION_DURATION = _histogram(
    "scheduler_placement_evaluation_duration_seconds",
    "[ALPHA] Duration of the evaluation of one placement.",
    ("result", "profile"),
    buckets=_FROM_1MS,
)
FRAMEWORK_EXTENSION_POINT_DURATION = _histogram(
    "scheduler_framework_extension_point_duration_seconds",
    "[STABLE] Duration of all plugins of an extension point together.",
    ("extension_point", "status", "profile"),
    buckets=_FROM_100US,
)
PLUGIN_EXECUTION_DURATION = _histogram(
    "scheduler_plugin_execution_duration_seconds",
    "[BETA] Duration of one plugin at an extension point, in a sample of the attempts.",
    ("plugin", "extension_point", "status"),
    buckets=_FROM_10US,
)
PLUGIN_EVALUATION = _counter(
    "scheduler_plugin_evaluation_total",
    "[BETA] Calls of a plugin at PreFilter, Filter, PreScore and Score; cached answers do not count.",
    ("plugin", "extension_point", "profile"),
)
PERMIT_WAIT_DURATION = _histogram(
    "scheduler_permit_wait_duration_seconds",
    "[BETA] How long pods waited for their Permit plugins, by result.",
    ("result",),
    buckets=_FROM_1MS,
)
PREEMPTION_ATTEMPTS = _counter(
    "scheduler_preemption_attempts_total", "[STABLE] Preemption attempts for pods that fit no node."
)
PREEMPTION_VICTIMS = _histogram(
    "scheduler_preemption_victims",
    "[STABLE] Number of victims of a preemption.",
    buckets=exponential(1, 2, 7),
)
WORKLOAD_PREEMPTION_ATTEMPTS = _counter(
    "scheduler_workload_preemption_attempts_total",
    "[ALPHA] Attempts of PodGroups to preempt, by the resulting status.",
    ("result",),
)
WORKLOAD_PREEMPTION_VICTIMS = _histogram(
    "scheduler_workload_preemption_victims",
    "[ALPHA] Number of pods that a PodGroup preempts.",
    buckets=exponential(1, 2, 11),
)
PREEMPTION_WORKLOAD_DISRUPTIONS = _histogram(
    "scheduler_preemption_workload_disruptions",
    "[ALPHA] Number of units of PodGroups among the victims of a preemption: a whole group, or a pod of one.",
    ("preemptor",),
    buckets=exponential(1, 2, 11),
)
PREEMPTION_EVALUATION_DURATION = _histogram(
    "scheduler_preemption_evaluation_duration_seconds",
    "[ALPHA] Duration of the search for victims.",
    ("preemptor", "result"),
    buckets=exponential(0.001, 2, 16),
)
PREEMPTION_EXECUTION_DURATION = _histogram(
    "scheduler_preemption_execution_duration_seconds",
    "[ALPHA] Duration of the eviction of all victims, in the background.",
    ("preemptor", "result"),
    buckets=exponential(0.001, 2, 16),
)
PREEMPTION_PDB_VIOLATIONS = _counter(
    "scheduler_preemption_pdb_violations_total",
    "[ALPHA] Victims whose eviction violates a PodDisruptionBudget.",
    ("preemptor",),
)

# -- the queue and the cache ---------------------------------------------------------------------------------------

PENDING_PODS = _gauge(
    "scheduler_pending_pods",
    "[STABLE] Pending pods by queue: active, backoff, unschedulable, gated; of groups also incomplete, pending.",
    ("queue",),
)
QUEUED_ENTITIES = _gauge(
    "scheduler_queued_entities",
    "[ALPHA] What is queued, by queue and type: pods that are scheduled one by one, and groups.",
    ("queue", "type"),
)
QUEUE_INCOMING_PODS = _counter(
    "scheduler_queue_incoming_pods_total",
    "[STABLE] Pods added to a queue, by the event.",
    ("queue", "event"),
)
QUEUE_INCOMING_ENTITIES = _counter(
    "scheduler_queue_incoming_entities_total",
    "[ALPHA] What was added to a queue, by the event and type: pods that are scheduled one by one, and groups.",
    ("queue", "event", "type"),
)
UNSCHEDULABLE_PODS = _gauge(
    "scheduler_unschedulable_pods",
    "[BETA] Queued pods by the plugin that rejected them; a pod counts for each of its plugins.",
    ("plugin", "profile"),
)
INFLIGHT_EVENTS = _gauge(
    "scheduler_inflight_events",
    "[ALPHA] Events that are kept for pods in flight, and these pods themselves (PodPopped).",
    ("event",),
)
QUEUEING_HINT_EXECUTION_DURATION = _histogram(
    "scheduler_queueing_hint_execution_duration_seconds",
    "[ALPHA] Duration of a plugin's queueing hint.",
    ("plugin", "event", "hint"),
    buckets=_FROM_10US,
)
EVENT_HANDLING_DURATION = _histogram(
    "scheduler_event_handling_duration_seconds",
    "[ALPHA] Duration of handling a change of the cluster, with the pods that it wakes.",
    ("event",),
    buckets=_FROM_100US,
)
CACHE_SIZE = _gauge("scheduler_cache_size", "[ALPHA] Nodes, pods on nodes, and assumed pods.", ("type",))
GOROUTINES = _gauge("scheduler_goroutines", "[BETA] Running binding cycles.", ("operation",))

_INFORMER = ("name", "group", "version", "resource")
INFORMER_STORE_RESOURCE_VERSION = _gauge(
    "informer_store_resource_version",
    "[ALPHA] The last 15 digits of the resource version of the last change that was applied.",
    _INFORMER,
)
INFORMER_QUEUED_ITEMS = _gauge("informer_queued_items", "[ALPHA] Changes that are not applied yet.", _INFORMER)
INFORMER_PROCESSING_LATENCY = _histogram(
    "informer_processing_latency_seconds",
    "[ALPHA] Duration of applying a change of the cluster, by resource.",
    _INFORMER,
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)

# -- devices ---------------------------------------------------------------------------------------------------------

SCHEDULER_RESOURCECLAIM_CREATES = _counter(
    "scheduler_resourceclaim_creates_total",
    "[ALPHA] Requests to create claims for pods with extended resources that are devices.",
    ("status",),
)
RESOURCECLAIM_CREATES = _counter(
    "dynamic_resource_allocation_resourceclaim_creates_total",
    "[ALPHA] Requests to create claims for pods with extended resources that are devices.",
    ("status", "owner_api_group", "owner_api_kind"),
)
_BINDING_CONDITIONS = ("profile", "driver", "status")
DRA_BINDINGCONDITIONS_ALLOCATIONS = _counter(
    "scheduler_dra_bindingconditions_allocations_total",
    "[ALPHA] Allocated devices with binding conditions, by how the wait for them ended.",
    _BINDING_CONDITIONS,
)
DRA_BINDINGCONDITIONS_WAIT_DURATION = _histogram(
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "[ALPHA] How long pods waited until their devices were ready, once for each device of their claims.",
    _BINDING_CONDITIONS,
    buckets=exponential(0.1, 2, 14),
)

# -- outside data ----------------------------------------------------------------------------------------------------

_SOURCE = ("profile", "plugin", "source")
SOURCE_AGE = _gauge(
    "kframework_source_age_seconds", "[ALPHA] Seconds since the last update of a plugin's source.", _SOURCE
)
SOURCE_VALUES = _gauge("kframework_source_values", "[ALPHA] Number of values of a plugin's source.", _SOURCE)
SOURCE_FRESH = _gauge("kframework_source_fresh", "[ALPHA] 1 while a plugin's source is fresh, else 0.", _SOURCE)
SOURCE_FETCHES = _counter(
    "kframework_source_fetches_total", "[ALPHA] Fetches of a plugin's source, by result.", (*_SOURCE, "result")
)

# -- requests to the API server ------------------------------------------------------------------------------------

REST_CLIENT_REQUESTS = _counter(
    "rest_client_requests_total",
    "[ALPHA] Requests by status code, method and host; the code is <error> if there was no response.",
    ("code", "method", "host"),
)
REST_CLIENT_REQUEST_DURATION = _histogram(
    "rest_client_request_duration_seconds",
    "[ALPHA] Duration of requests until the response; of a watch, until its response began.",
    ("verb", "host"),
    buckets=_REQUESTS,
)
REST_CLIENT_RATE_LIMITER_DURATION = _histogram(
    "rest_client_rate_limiter_duration_seconds",
    "[ALPHA] How long requests waited for the client's rate limiter.",
    ("verb", "host"),
    buckets=_REQUESTS,
)
REST_CLIENT_REQUEST_SIZE = _histogram(
    "rest_client_request_size_bytes", "[ALPHA] Sizes of the bodies of requests.", ("verb", "host"), buckets=_BYTES
)
REST_CLIENT_RESPONSE_SIZE = _histogram(
    "rest_client_response_size_bytes", "[ALPHA] Sizes of the bodies of responses.", ("verb", "host"), buckets=_BYTES
)

# -- internal errors: ours, kube-scheduler has none of them ------------------------------------------------

RELOADS = _counter(
    "kframework_configuration_reloads_total",
    "[ALPHA] Changes of the configuration file: taken, or refused.",
    ("result",),
)
LAST_RELOAD_SUCCESSFUL = _gauge(
    "kframework_configuration_last_reload_successful",
    "[ALPHA] 0 if the scheduler refused the last change of its configuration file, else 1.",
)
LAST_RELOAD_TIME = _gauge(
    "kframework_configuration_last_reload_success_timestamp_seconds",
    "[ALPHA] When the scheduler last took a configuration from its file, in seconds since 1970.",
)
_SHADOW = ("profile", "shadow")
SHADOW_DECISIONS = _counter(
    "kframework_shadow_decisions_total",
    "[ALPHA] Decisions of shadow profiles, by how they compare with the profile's.",
    (*_SHADOW, "outcome"),
)
SHADOW_SKIPPED_PODS = _counter(
    "kframework_shadow_skipped_pods_total", "[ALPHA] Pods that a shadow profile did not decide.", _SHADOW
)
SHADOW_SHARE = _gauge(
    "kframework_shadow_sampled_share", "[ALPHA] The share of the pods that a shadow profile decides.", _SHADOW
)
SLOW_HOOKS = _counter(
    "kframework_slow_hooks_total", "[ALPHA] Hooks that blocked the event loop for more than 50 ms.", ("plugin", "hook")
)
DROPPED_EVENTS = _counter(
    "kframework_dropped_events_total",
    "[ALPHA] Events that were not written: the queue was full (queue_full), or all writes failed (write_failed).",
    ("reason",),
)
BINDING_WAITS = _gauge(
    "kframework_binding_waiting_pods",
    "[ALPHA] Pods whose binding waits for a plugin: on Permit, or in a hook.",
    ("extension_point", "plugin"),
)
BINDING_LONGEST_WAIT = _gauge(
    "kframework_binding_longest_wait_seconds",
    "[ALPHA] The longest current wait of a pod whose binding waits for a plugin.",
    ("extension_point", "plugin"),
)

# -- the process ---------------------------------------------------------------------------------------------------

LEADER_ELECTION_MASTER_STATUS = _gauge(
    "leader_election_master_status",
    "[ALPHA] 1 while this process holds the lease of that name, else 0.",
    ("name",),
)
BUILD_INFO = _gauge(
    "kubernetes_build_info",
    "[BETA] Always 1; the labels name the version of kube-scheduler that is followed, and the platform.",
    tuple("major minor git_version git_commit git_tree_state build_date go_version compiler platform".split()),
)
FEATURE_ENABLED = _gauge(
    "kubernetes_feature_enabled",
    "[BETA] 1 if a feature gate of the scheduler is on, else 0; the stage of a stable feature is empty.",
    ("name", "stage"),
)
HEALTHCHECK = _gauge(
    "kubernetes_healthcheck", "[STABLE] Whether the last run of a health check passed.", ("name", "type")
)
HEALTHCHECKS = _counter(
    "kubernetes_healthchecks_total", "[STABLE] Results of health checks.", ("name", "type", "status")
)

# -- resource requests of pods -------------------------------------------------------------------------------------

_POD_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
POD_RESOURCE_REQUEST = _gauge(
    "kube_pod_resource_request",
    "[STABLE] Amount of a resource that a pod requests, as the scheduler counts it.",
    _POD_LABELS,
)
POD_RESOURCE_LIMIT = _gauge(
    "kube_pod_resource_limit", "[STABLE] Limit of a resource of a pod, as the scheduler counts it.", _POD_LABELS
)

#: What differs between the MINORS: the stability in each, None in one that does not have the metric.
_STABILITIES: Mapping[str, tuple[str | None, str | None]] = MappingProxyType(
    {
        SCHEDULING_ALGORITHM_DURATION.name: ("ALPHA", "BETA"),
        PLUGIN_EXECUTION_DURATION.name: ("ALPHA", "BETA"),
        GENERATED_PLACEMENTS.name: (None, "ALPHA"),
        PLACEMENT_EVALUATIONS.name: (None, "ALPHA"),
        PLACEMENT_EVALUATION_DURATION.name: (None, "ALPHA"),
        WORKLOAD_PREEMPTION_ATTEMPTS.name: (None, "ALPHA"),
        WORKLOAD_PREEMPTION_VICTIMS.name: (None, "ALPHA"),
        PREEMPTION_WORKLOAD_DISRUPTIONS.name: (None, "ALPHA"),
        PREEMPTION_EVALUATION_DURATION.name: (None, "ALPHA"),
        PREEMPTION_EXECUTION_DURATION.name: (None, "ALPHA"),
        PREEMPTION_PDB_VIOLATIONS.name: (None, "ALPHA"),
        QUEUED_ENTITIES.name: (None, "ALPHA"),
        QUEUE_INCOMING_ENTITIES.name: (None, "ALPHA"),
        INFORMER_STORE_RESOURCE_VERSION.name: (None, "ALPHA"),
        INFORMER_QUEUED_ITEMS.name: (None, "ALPHA"),
        INFORMER_PROCESSING_LATENCY.name: (None, "ALPHA"),
        SCHEDULER_RESOURCECLAIM_CREATES.name: ("ALPHA", None),
        RESOURCECLAIM_CREATES.name: (None, "ALPHA"),
    }
)


def in_minor(family: Family, minor: str) -> Family | None:
    """Return a family with the stability that it has in a minor of Kubernetes; None if it does not exist there."""
    stabilities = _STABILITIES.get(family.name)
    if stabilities is None:
        return family
    stability, text = stabilities[MINORS.index(minor)], family.help.partition("] ")[2]
    return None if stability is None else replace(family, help=f"[{stability}] {text}")


def event_label(label: str, minor: str) -> str:
    """Return the label of an event in a minor of Kubernetes: 1.36 has one name for all pending pods."""
    if minor != "1.36":
        return label
    return label.replace("TargetPod", "UnschedulablePod").replace("UnscheduledPod", "UnschedulablePod")


#: All of them, those of one minor included.
FAMILIES: tuple[Family, ...] = tuple(family for family in list(globals().values()) if isinstance(family, Family))
