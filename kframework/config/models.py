"""The blocks of a KubeSchedulerConfiguration (`kubescheduler.config.k8s.io/v1`) as written, with their defaults.

Numbers are in the units of the field names, durations in seconds. If Go's zero value means "not given" (an empty text,
`0s`), the default replaces it, as in kube-scheduler.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, JsonValue

from kframework.config.decode import ZERO_IS_DEFAULT, ApiModel, Base64, Bool, Float, Int32, Int64, schema_type
from kframework.config.duration import Duration

KIND = "KubeSchedulerConfiguration"
API_VERSION = "kubescheduler.config.k8s.io/v1"

#: The extension points that the configuration names, in the order in which kube-scheduler expands `multiPoint`.
POINTS = (
    "pre_filter",
    "filter",
    "post_filter",
    "reserve",
    "pre_score",
    "score",
    "pre_bind",
    "bind",
    "post_bind",
    "permit",
    "pre_enqueue",
    "queue_sort",
)

#: Points of an alpha feature: read and checked as the others, but nothing runs there unless its gate is on.
PLACEMENT_POINTS = ("placement_generate", "placement_score")

#: Points of groups, where nothing runs without the gate GenericWorkload.
GROUP_POINTS = ("pod_group_post_filter", *PLACEMENT_POINTS)


def camel(point: str) -> str:
    """Return an extension point's name as the configuration file spells it."""
    first, *rest = point.split("_")
    return first + "".join(word.capitalize() for word in rest)


Text = Annotated[str, ZERO_IS_DEFAULT]
Seconds = Annotated[Duration, ZERO_IS_DEFAULT]
Percentage = Annotated[Int32, schema_type(minimum=0, maximum=100)]


class LeaderElectionSettings(ApiModel):
    """The settings of leader election between several schedulers."""

    leader_elect: Bool = True
    """Whether to schedule only while holding the Lease."""
    lease_duration: Seconds = Duration(15)
    """How long other replicas wait for a renewal before they take over."""
    renew_deadline: Seconds = Duration(10)
    """How long the leader tries to renew the Lease before it gives up; less than `leaseDuration`."""
    retry_period: Seconds = Duration(2)
    """The time between attempts to acquire or renew the Lease."""
    resource_lock: Annotated[Text, schema_type(enum=("", "leases"))] = "leases"
    """The kind of the lock; only `leases`."""
    resource_name: Text = "kube-scheduler"
    """The name of the Lease."""
    resource_namespace: Text = "kube-system"
    """The namespace of the Lease."""


class ClientConnection(ApiModel):
    """The settings of connections to the API server; a negative `qps` lifts the limit."""

    kubeconfig: str = ""
    """The kubeconfig file; the option --kubeconfig takes precedence."""
    accept_content_types: str = ""
    """Accepted as in kube-scheduler; requests are JSON."""
    content_type: Text = "application/vnd.kubernetes.protobuf"
    """Accepted as in kube-scheduler; requests are JSON."""
    qps: Annotated[Float, ZERO_IS_DEFAULT] = 50.0
    """Requests per second; a negative number removes the limit."""
    burst: Annotated[Int32, ZERO_IS_DEFAULT, schema_type(minimum=0)] = 100
    """Requests at once, before `qps` limits them."""


class PluginEntry(ApiModel):
    """A plugin named under `enabled` or `disabled`; the weight counts for scoring, 0 meaning 1."""

    name: str = ""
    """The plugin's name: that of its entry point."""
    weight: Int32 = 0
    """The weight of its score; 0 or none means 1."""


class PluginSet(ApiModel):
    """The enabled and disabled plugins of one extension point; `*` under `disabled` means every default plugin."""

    enabled: tuple[Annotated[PluginEntry, schema_type(properties={"weight": {"minimum": 0}})], ...] = ()
    """Plugins after the default ones; one with the name of a default plugin replaces it at its position."""
    disabled: tuple[PluginEntry, ...] = ()
    """Default plugins that do not run here; `*` means all."""


class Plugins(ApiModel):
    """The plugins of a profile, by extension point; `multi_point` enables a plugin at every point it implements."""

    pre_enqueue: PluginSet = PluginSet()
    """Whether a pod may enter the active queue."""
    queue_sort: PluginSet = PluginSet()
    """The order of the queue; the same in every profile."""
    pre_filter: PluginSet = PluginSet()
    """Computes state once per pod, and can exclude nodes."""
    filter: PluginSet = PluginSet()
    """Which nodes a pod may run on."""
    post_filter: PluginSet = PluginSet()
    """Runs when no node fits: preemption."""
    pre_score: PluginSet = PluginSet()
    """Computes state once per pod before nodes are scored."""
    score: PluginSet = PluginSet()
    """How well a node suits a pod; the weights apply here."""
    reserve: PluginSet = PluginSet()
    """Reserves resources when a node is chosen, and releases them if the pod is not bound."""
    permit: PluginSet = PluginSet()
    """Whether a pod may be bound, is rejected, or has to wait."""
    pre_bind: PluginSet = PluginSet()
    """Work before a pod is bound, such as preparing volumes."""
    bind: PluginSet = PluginSet()
    """Binds the pod; the first plugin that does not skip decides."""
    post_bind: PluginSet = PluginSet()
    """Is notified when a pod is bound."""
    multi_point: PluginSet = PluginSet()
    """Plugins for every point that they implement; the sets of single points take precedence."""
    pod_group_post_filter: PluginSet = PluginSet()
    """Runs when a PodGroup is unschedulable: preemption (Kubernetes 1.37)."""
    placement_generate: PluginSet = PluginSet()
    """Lists sets of nodes, so that a PodGroup is scheduled on nodes of one set (alpha); at most one plugin."""
    placement_score: PluginSet = PluginSet()
    """How well a set of nodes suits a PodGroup (alpha); the weights apply here."""

    def key(self, key: str) -> PluginSet:
        """Return the set of an extension point or of `multi_point`, by its snake_case name."""
        plugins: PluginSet = getattr(self, key)
        return plugins

    def sets(self) -> dict[str, PluginSet]:
        """Return all sets by snake_case key, in the order in which kube-scheduler declares them."""
        return {key: getattr(self, key) for key in Plugins.model_fields}

    def enabled_names(self) -> tuple[str, ...]:
        """Return the names enabled under any key, sorted: the plugins to instantiate."""
        return tuple(sorted({entry.name for plugins in self.sets().values() for entry in plugins.enabled}))


class PluginConfigEntry(ApiModel):
    """The arguments of one plugin as written; the plugin defines their model."""

    name: str = ""
    """The name of the plugin."""
    args: dict[str, JsonValue] | None = None
    """The plugin's args, as its Args model defines them."""


class ProfileBlock(ApiModel):
    """A profile as written: before the default plugins are merged in."""

    scheduler_name: str | None = None
    """The schedulerName of the profile's pods; that of a single profile defaults to `default-scheduler`."""
    percentage_of_nodes_to_score: Percentage | None = None
    """Overrides the setting of the same name for this profile."""
    plugins: Plugins = Plugins()
    """The differences from the default plugins, by extension point."""
    plugin_config: tuple[PluginConfigEntry, ...] = ()
    """The args of plugins; other plugins have their defaults."""


class ExtenderTLSConfig(ApiModel):
    """The TLS settings of an extender's client; the `*_data` fields are base64 text and beat the files."""

    insecure: Bool = False
    """Whether to accept any certificate: for tests only."""
    server_name: str = ""
    """The name expected in the server's certificate, if not the host's."""
    cert_file: str = ""
    """The file with the client's certificate."""
    key_file: str = ""
    """The file with the client's key."""
    ca_file: str = ""
    """The file with the trusted CAs."""
    cert_data: Base64 = ""
    """The client's certificate itself; takes precedence over `certFile`."""
    key_data: Base64 = ""
    """The client's key itself; takes precedence over `keyFile`."""
    ca_data: Base64 = ""
    """The trusted CAs themselves; take precedence over `caFile`."""


class ManagedResource(ApiModel):
    """An extended resource that an extender looks after."""

    name: str = ""
    """The extended resource."""
    ignored_by_scheduler: Bool = False
    """Whether NodeResourcesFit leaves this resource to the extender."""


class ExtenderSettings(ApiModel):
    """An HTTP service that filters, scores, preempts or binds along with the plugins; an empty verb is not called."""

    url_prefix: str = ""
    """The URL of the service; each verb is appended."""
    filter_verb: str = ""
    """The path at which it filters nodes."""
    preempt_verb: str = ""
    """The path at which it accepts or changes preemption candidates."""
    prioritize_verb: str = ""
    """The path at which it scores nodes."""
    weight: Int64 = 0
    """The weight of its scores; above 0 if there is a `prioritizeVerb`."""
    bind_verb: str = ""
    """The path at which it binds; at most one extender has it."""
    enable_https: Bool = Field(default=False, alias="enableHTTPS")
    """Whether to use TLS; without a CA in `tlsConfig`, certificates are not verified."""
    tls_config: ExtenderTLSConfig | None = None
    """The settings of TLS."""
    http_timeout: Seconds = Field(default=Duration(5), alias="httpTimeout")
    """The time limit of a request."""
    node_cache_capable: Bool = False
    """Whether it caches nodes itself, so that requests contain only their names."""
    managed_resources: tuple[ManagedResource, ...] = ()
    """The extender is called only for pods that request one of these resources; none means for all pods."""
    ignorable: Bool = False
    """Whether pods are scheduled without it while it fails."""

    @property
    def address(self) -> str:
        """`url_prefix` without its password, for messages."""
        return without_password(self.url_prefix)


def without_password(url: str) -> str:
    """Replace the password in a URL, as Go does in messages."""
    return re.sub(r"(://[^/@:]*:)[^/@]*@", r"\1xxxxx@", url)


class Settings(ApiModel):
    """All of a KubeSchedulerConfiguration but its profiles.

    `percentage_of_nodes_to_score` 0 means adaptive.
    """

    parallelism: Annotated[Int32, schema_type(minimum=1)] = 16
    """Accepted as in kube-scheduler, where it is the number of goroutines for nodes."""
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
    """The election of the replica that schedules."""
    client_connection: ClientConnection = ClientConnection()
    """The connection to the API server."""
    enable_profiling: Bool = True
    """Whether profiling data is served."""
    enable_contention_profiling: Bool = Field(default_factory=lambda data: bool(data["enable_profiling"]))
    """Accepted as in kube-scheduler; there are no Go locks to profile."""
    percentage_of_nodes_to_score: Percentage = 0
    """The percentage of nodes to find feasible before scoring; 0 means adaptive."""
    pod_initial_backoff_seconds: Annotated[Int64, schema_type(minimum=1)] = 1
    """The backoff of a pod after its first failed attempt."""
    pod_max_backoff_seconds: Annotated[Int64, schema_type(minimum=1)] = 10
    """The maximum backoff of a pod; each attempt doubles it."""
    extenders: tuple[ExtenderSettings, ...] = ()
    """HTTP services that take part in decisions."""
    delay_cache_until_active: Bool = False
    """Whether a scheduler watches the cluster only once it leads."""


class KubeSchedulerConfiguration(Settings):
    """The whole document as written, defaulted but for its profiles."""

    profiles: tuple[ProfileBlock, ...] = ()
    """The profiles: a schedulerName each."""
