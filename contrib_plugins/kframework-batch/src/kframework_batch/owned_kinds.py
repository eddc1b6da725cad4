"""Kinds that jobs have made for them: what their pods mount, and how they find each other."""

from __future__ import annotations

import msgspec

from kframework.objects import ApiObject, ApiStruct, LabelSelector, ServiceSpec, kind


@kind("v1", "secrets")
class Secret(ApiObject, frozen=True, kw_only=True):
    """Confidential texts by name, in base64."""

    data: dict[str, str] = msgspec.field(default_factory=dict)
    type: str = ""

    def __repr__(self) -> str:
        return f"<Secret {self.metadata.namespace}/{self.metadata.name}>"


class HeadlessServiceSpec(ServiceSpec, frozen=True, kw_only=True):
    """The `spec` of a service which gives each pod a name in DNS, and has no address of its own."""

    cluster_ip: str = msgspec.field(name="clusterIP")
    publish_not_ready_addresses: bool = False


class NetworkPolicyPeer(ApiStruct, frozen=True, kw_only=True):
    """A peer that may connect."""

    pod_selector: LabelSelector | None = None


class NetworkPolicyIngressRule(ApiStruct, frozen=True, kw_only=True):
    """From where connections are let in; `from` in the API."""

    peers: tuple[NetworkPolicyPeer, ...] = msgspec.field(default=(), name="from")


class NetworkPolicySpec(ApiStruct, frozen=True, kw_only=True):
    """The isolated pods, and the peers that may still connect."""

    pod_selector: LabelSelector = LabelSelector()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    policy_types: tuple[str, ...] = ()


@kind("networking.k8s.io/v1", "networkpolicies", short_names=("netpol",))
class NetworkPolicy(ApiObject, frozen=True, kw_only=True):
    """The permission to connect to pods."""

    spec: NetworkPolicySpec = NetworkPolicySpec()
