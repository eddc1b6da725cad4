"""Which kind is looked at how."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, forbidden, invalid, required
from kframework.fake_api.schema.validation import services, workloads
from kframework.fake_api.schema.validation.cron_jobs import cron_job
from kframework.fake_api.schema.validation.metadata import metadata_causes
from kframework.fake_api.schema.validation.pods import pod_causes
from kframework.fake_api.schema.validation.webhooks import webhook_causes
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, name
from kframework.objects.syntax import config_key

_KEPT_RUNNING = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
#: What is above belongs to the classes of the system.
_HIGHEST_PRIORITY = 1_000_000_000


def object_causes(data: Data, api_version: str, kind: str) -> Iterator[Cause]:
    """Yield what is wrong with an object that has its defaults."""
    yield from metadata_causes(mapping(data, "metadata"), kind)
    match api_version, kind:
        case "v1", "Pod":
            yield from pod_causes(mapping(data, "spec"))
        case "v1", "Service":
            yield from services.service(data)
        case "apps/v1", _ if kind in _KEPT_RUNNING:
            yield from workloads.kept_running(data, kind)
        case "batch/v1", "Job":
            yield from workloads.job(data)
        case "batch/v1", "CronJob":
            yield from cron_job(data)
        case "v1", "ConfigMap" | "Secret":
            for field in ("data", "binaryData"):
                for key in mapping(data, field):
                    yield from (invalid(f"{field}[{key}]", key, each) for each in config_key(key))
        case "scheduling.k8s.io/v1", "PriorityClass":
            yield from _priority_class(data)
        case "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration":
            yield from webhook_causes(data)
        case "storage.k8s.io/v1", "StorageClass" if not data.get("provisioner"):
            yield required("provisioner")


def _priority_class(data: Data) -> Iterator[Cause]:
    priority = data.get("value")
    if name(data).startswith("system-"):
        said = "priority class names with 'system-' prefix are reserved for system use only"
        yield forbidden("metadata.name", said)
    elif isinstance(priority, int) and priority > _HIGHEST_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}")
