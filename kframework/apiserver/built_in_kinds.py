"""The kinds of Kubernetes 1.36's stable groups: their names, and which of their parts have a path of their own.

What no scheduler reads is kept as its author wrote it. Both versions of autoscaling have one kind: v2 is served.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from kframework.objects import ApiObject, Kind, kind_named
from kframework.objects.kinds import foreign_kind

#: A line a kind: its name, its plural and what it is called for short, then `cluster` if it is in no namespace, the
#: subresources `status` and `scale`, and its category with a plus.
_WRITTEN = """
v1
  ComponentStatus componentstatuses cs, cluster
  ConfigMap configmaps cm,
  Endpoints endpoints ep,
  Event events ev,
  LimitRange limitranges limits,
  Namespace namespaces ns, cluster status
  Node nodes no, cluster status
  PersistentVolume persistentvolumes pv, cluster status
  PersistentVolumeClaim persistentvolumeclaims pvc, status
  Pod pods po, status +all
  PodTemplate podtemplates,
  ReplicationController replicationcontrollers rc, status scale +all
  ResourceQuota resourcequotas quota, status
  Secret secrets,
  Service services svc, status +all
  ServiceAccount serviceaccounts sa,
apps/v1
  ControllerRevision controllerrevisions,
  DaemonSet daemonsets ds, status +all
  Deployment deployments deploy, status scale +all
  ReplicaSet replicasets rs, status scale +all
  StatefulSet statefulsets sts, status scale +all
autoscaling/v2
  HorizontalPodAutoscaler horizontalpodautoscalers hpa, status +all
batch/v1
  CronJob cronjobs cj, status +all
  Job jobs, status +all
admissionregistration.k8s.io/v1
  MutatingAdmissionPolicy mutatingadmissionpolicies, cluster +api-extensions
  MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings, cluster +api-extensions
  MutatingWebhookConfiguration mutatingwebhookconfigurations, cluster +api-extensions
  ValidatingAdmissionPolicy validatingadmissionpolicies, cluster status +api-extensions
  ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings, cluster +api-extensions
  ValidatingWebhookConfiguration validatingwebhookconfigurations, cluster +api-extensions
apiextensions.k8s.io/v1
  CustomResourceDefinition customresourcedefinitions crd crds, cluster status +api-extensions
apiregistration.k8s.io/v1
  APIService apiservices, cluster status +api-extensions
certificates.k8s.io/v1
  CertificateSigningRequest certificatesigningrequests csr, cluster status
coordination.k8s.io/v1
  Lease leases,
discovery.k8s.io/v1
  EndpointSlice endpointslices,
events.k8s.io/v1
  Event events ev,
flowcontrol.apiserver.k8s.io/v1
  FlowSchema flowschemas, cluster status
  PriorityLevelConfiguration prioritylevelconfigurations, cluster status
networking.k8s.io/v1
  IPAddress ipaddresses ip, cluster
  Ingress ingresses ing, status
  IngressClass ingressclasses, cluster
  NetworkPolicy networkpolicies netpol,
  ServiceCIDR servicecidrs, cluster status
node.k8s.io/v1
  RuntimeClass runtimeclasses, cluster
policy/v1
  PodDisruptionBudget poddisruptionbudgets pdb, status
rbac.authorization.k8s.io/v1
  ClusterRole clusterroles, cluster
  ClusterRoleBinding clusterrolebindings, cluster
  Role roles,
  RoleBinding rolebindings,
resource.k8s.io/v1
  DeviceClass deviceclasses, cluster
  ResourceClaim resourceclaims, status
  ResourceClaimTemplate resourceclaimtemplates,
  ResourceSlice resourceslices, cluster
scheduling.k8s.io/v1
  PriorityClass priorityclasses pc, cluster
storage.k8s.io/v1
  CSIDriver csidrivers, cluster
  CSINode csinodes, cluster
  CSIStorageCapacity csistoragecapacities,
  StorageClass storageclasses sc, cluster
  VolumeAttachment volumeattachments, cluster status
  VolumeAttributesClass volumeattributesclasses vac, cluster
"""


class BuiltIn(NamedTuple):
    """A kind of the stable groups: `traits` are those of `cluster`, `status` and `scale` that hold of it."""

    api_version: str
    name: str
    plural: str
    short_names: tuple[str, ...]
    traits: frozenset[str]
    categories: tuple[str, ...]

    @property
    def kind(self) -> Kind[ApiObject]:
        """The kind as it is read here, or one of which nobody reads more than the metadata."""
        known = kind_named(self.api_version, self.name)
        namespaced = "cluster" not in self.traits
        return known or foreign_kind(self.api_version, self.name, self.plural, namespaced=namespaced)


@cache
def built_in_kinds() -> tuple[BuiltIn, ...]:
    """List the kinds, group by group."""
    return tuple(_read())


def _read() -> Iterator[BuiltIn]:
    api_version = ""
    for line in _WRITTEN.strip().splitlines():
        if not line.startswith(" "):
            api_version = line
            continue
        names, _, rest = line.partition(",")
        name, plural, *short_names = names.split()
        traits = [each for each in rest.split() if not each.startswith("+")]
        categories = tuple(each[1:] for each in rest.split() if each.startswith("+"))
        yield BuiltIn(api_version, name, plural, tuple(short_names), frozenset(traits), categories)
