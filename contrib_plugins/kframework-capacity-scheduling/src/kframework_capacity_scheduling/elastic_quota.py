"""The kind ElasticQuota, as the CustomResourceDefinition of scheduler-plugins has it."""

from __future__ import annotations

import msgspec

from kframework.objects import ApiObject, ApiStruct, PrinterColumn, ResourceList, kind


class ElasticQuotaSpec(ApiStruct, frozen=True, kw_only=True):
    """The amounts that a namespace is owed at any time (`min`), and that its pods may use at most (`max`)."""

    min: ResourceList = msgspec.field(default_factory=dict)
    max: ResourceList = msgspec.field(default_factory=dict)


class ElasticQuotaStatus(ApiStruct, frozen=True, kw_only=True):
    """The requests of the namespace's bound pods."""

    used: ResourceList = msgspec.field(default_factory=dict)


@kind(
    "scheduling.x-k8s.io/v1alpha1",
    "elasticquotas",
    short_names=("eq", "eqs"),
    columns=(
        PrinterColumn(name="Used", json_path=".status.used"),
        PrinterColumn(name="Max", json_path=".spec.max"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
    ),
)
class ElasticQuota(ApiObject, frozen=True, kw_only=True):
    """The share of its namespace; of several in one namespace the oldest counts."""

    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()
