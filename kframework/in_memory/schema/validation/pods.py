"""Validation of metadata, pod specs, and pod templates; `path` is the path of a spec."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kframework.in_memory.schema.causes import (
    Cause,
    field_cause,
    forbidden,
    format_value,
    invalid,
    invalid_object,
    required,
    too_long,
    unsupported,
)
from kframework.in_memory.schema.validation.containers import (
    PROBES,
    claim_name_causes,
    container_causes,
    name_causes,
    security_causes,
)
from kframework.in_memory.schema.validation.volumes import volume_causes
from kframework.in_memory.store import Data
from kframework.objects.identity import cached_by_identity
from kframework.objects.label_selectors import label_selector
from kframework.objects.meta import LabelSelector
from kframework.objects.plain_data import entries, mapping, strings, text, value
from kframework.objects.pod import PodSpec
from kframework.objects.scheduling_rules import pod_spec_problems
from kframework.objects.syntax import dns_label, dns_subdomain, ip_address, label_value, qualified_name

_CHOICES = {
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "os.name": ("linux", "windows"),
}
_MAX_NAMESERVERS = 3
_FAILURE_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_ONLY_RESTARTABLE = "may not be set for init containers without restartPolicy=Always"


@cached_by_identity
def pod_causes(spec: Data) -> list[Cause]:
    """List problems of a pod spec, cached because specs are never modified."""
    return list(spec_causes(spec, "spec"))


def spec_causes(spec: Data, path: str, claims: Iterable[Data] = ()) -> Iterator[Cause]:
    """Yield problems of a pod spec; pods of a StatefulSet have volumes for the templates of its `claims`, too."""
    volumes = entries(spec, "volumes")
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        location = f"{path}.volumes[{index}]"
        yield from name_causes(text(volume, "name"), f"{location}.name", dns_label, seen)
        yield from volume_causes(volume, location)
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    known = {text(volume, "name") for volume in volumes} | {text(claim, "metadata.name") for claim in claims}
    claim_names = {text(each, "name") for each in entries(spec, "resourceClaims")}
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(entries(spec, field)):
            location = f"{path}.{field}[{index}]"
            yield from container_causes(container, location, known, names)
            yield from (_init_container_causes(container, location) if field == "initContainers" else ())
            yield from claim_name_causes(container, f"{location}.resources.claims", claim_names)
    for field, supported in _CHOICES.items():
        if (chosen := value(spec, field)) is not None and chosen not in supported:
            yield unsupported(f"{path}.{field}", chosen, supported)
    yield from _network_causes(spec, path)
    yield from security_causes(mapping(spec, "securityContext"), f"{path}.securityContext")
    if spec.get("hostPID") is True and spec.get("shareProcessNamespace") is True:
        message = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.securityContext.shareProcessNamespace", True, message)
    for index, gate in enumerate(entries(spec, "readinessGates")):
        condition = text(gate, "conditionType")
        yield from (
            invalid(f"{path}.readinessGates[{index}].conditionType", condition, each)
            for each in qualified_name(condition)
        )
    yield from (field_cause(problem, path) for problem in pod_spec_problems(msgspec.convert(spec, PodSpec)))


def _init_container_causes(container: Data, path: str) -> Iterator[Cause]:
    for field in ("lifecycle", *PROBES):
        if container.get(field) is not None and container.get("restartPolicy") != "Always":
            yield forbidden(f"{path}.{field}", _ONLY_RESTARTABLE)


def _network_causes(spec: Data, path: str) -> Iterator[Cause]:
    if domain := text(spec, "subdomain"):
        yield from (invalid(f"{path}.subdomain", domain, each) for each in dns_label(domain))
    for index, alias in enumerate(entries(spec, "hostAliases")):
        location = f"{path}.hostAliases[{index}]"
        ip = text(alias, "ip")
        yield from (invalid(f"{location}.ip", ip, each) for each in ip_address(ip))
        for number, host in enumerate(strings(alias, "hostnames")):
            yield from (invalid(f"{location}.hostnames[{number}]", host, each) for each in dns_subdomain(host))
    servers, location = strings(spec, "dnsConfig.nameservers"), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None" and "dnsConfig" not in spec:
        yield required(location, "must provide `dnsConfig` when `dnsPolicy` is None")
    elif spec.get("dnsPolicy") == "None" and not servers:
        yield required(f"{location}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
    if len(servers) > _MAX_NAMESERVERS:
        message = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        yield invalid(f"{location}.nameservers", servers, message)
    for index, server in enumerate(servers):
        yield from (invalid(f"{location}.nameservers[{index}]", server, each) for each in ip_address(server))


#: Limit of all annotations of an object, in bytes.
_MAX_ANNOTATION_BYTES = 256 * 1024
#: Kinds whose names are DNS labels.
_DNS_LABEL_KINDS = ("Namespace", "Service")


def metadata_causes(metadata: Data, kind: str) -> Iterator[Cause]:
    name = text(metadata, "name")
    if kind in _DNS_LABEL_KINDS and name:
        yield from (invalid("metadata.name", name, each) for each in dns_label(name))
    yield from labels_causes(metadata, "")


def labels_causes(metadata: Data, path: str) -> Iterator[Cause]:
    """Yield problems of labels and annotations; `path` is the prefix of `metadata`."""
    for key, label in mapping(metadata, "labels").items():
        yield from (invalid(f"{path}metadata.labels", key, each) for each in qualified_name(key))
        yield from (invalid(f"{path}metadata.labels", label, each) for each in label_value(str(label)))
    annotations = mapping(metadata, "annotations")
    for key in annotations:
        yield from (invalid(f"{path}metadata.annotations", key, each) for each in qualified_name(key.lower()))
    if sum(len(key) + len(str(value)) for key, value in annotations.items()) > _MAX_ANNOTATION_BYTES:
        yield too_long(f"{path}metadata.annotations", _MAX_ANNOTATION_BYTES)


_MISMATCH = "`selector` does not match template `labels`"


def workload_causes(data: Data, kind: str) -> Iterator[Cause]:
    spec = mapping(data, "spec")
    template = mapping(spec, "template")
    selector = spec.get("selector")
    if not isinstance(selector, dict):
        yield required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {kind.lower()}")
    elif not _selects(selector, mapping(template, "metadata.labels")):
        yield invalid("spec.template.metadata.labels", mapping(template, "metadata.labels"), _MISMATCH)
    yield from _template_causes(template, "spec.template", entries(spec, "volumeClaimTemplates"))


def job_causes(data: Data, path: str = "spec") -> Iterator[Cause]:
    spec = mapping(data, "spec")
    template = mapping(spec, "template")
    yield from _template_causes(template, f"{path}.template")
    policy = spec.get("podFailurePolicy")
    if isinstance(policy, dict):
        if (restarts := value(template, "spec.restartPolicy")) not in (None, "Never"):
            message = 'only "Never" is supported when `podFailurePolicy` is specified'
            yield invalid(f"{path}.template.spec.restartPolicy", restarts, message)
        for index, rule in enumerate(entries(policy, "rules")):
            yield from _failure_rule_causes(rule, f"{path}.podFailurePolicy.rules[{index}]")
    replaced, supported = spec.get("podReplacementPolicy"), ("Failed",) if policy else ("Failed", "TerminatingOrFailed")
    if replaced not in (None, *supported):
        yield unsupported(f"{path}.podReplacementPolicy", replaced, supported)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if isinstance(success := spec.get("successPolicy"), dict):
        if spec.get("completionMode") != "Indexed":
            yield invalid(f"{path}.successPolicy", success, "requires indexed completion mode")
        elif not success.get("rules"):
            message = "at least one rules must be specified when the successPolicy is specified"
            yield required(f"{path}.successPolicy.rules", message)


def _failure_rule_causes(rule: Data, path: str) -> Iterator[Cause]:
    yield from _word_causes(text(rule, "action"), f"{path}.action", _FAILURE_ACTIONS)
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    if codes and conditions:
        yield invalid_object(path, "specifying both OnExitCodes and OnPodConditions is not supported")
    elif not codes and not conditions:
        yield invalid_object(path, "specifying one of OnExitCodes and OnPodConditions is required")
    if isinstance(codes, dict):
        yield from _word_causes(text(codes, "operator"), f"{path}.onExitCodes.operator", ("In", "NotIn"))
        if not codes.get("values"):
            yield invalid(f"{path}.onExitCodes.values", codes.get("values"), "at least one value is required")


def _word_causes(word: str, path: str, supported: Sequence[str]) -> Iterator[Cause]:
    if not word:
        yield required(path, f"valid values: [{' '.join(map(format_value, supported))}]")
    elif word not in supported:
        yield unsupported(path, word, supported)


def _selects(selector: Data, labels: Data) -> bool:
    try:
        compiled = label_selector(msgspec.convert(selector, LabelSelector))
    except ValueError:
        return True
    return compiled.matches({key: str(label) for key, label in labels.items()})


def _template_causes(template: Data, path: str, claims: Iterable[Data] = ()) -> Iterator[Cause]:
    yield from labels_causes(mapping(template, "metadata"), f"{path}.")
    yield from spec_causes(mapping(template, "spec"), f"{path}.spec", claims)
