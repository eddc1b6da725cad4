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

#: Points of an alpha feature: read and checked as the others, but nothing runs there.
PLACEMENT_POINTS = ("placement_generate", "placement_score")


def camel(point: str) -> str:
    """Return an extension point's name as the configuration file spells it."""
    first, *rest = point.split("_")
    return first + "".join(word.capitalize() for word in rest)


Text = Annotated[str, ZERO_IS_DEFAULT]
Seconds = Annotated[Duration, ZERO_IS_DEFAULT]
Percentage = Annotated[Int32, schema_type(minimum=0, maximum=100)]


class LeaderElection(ApiModel):
    """The settings of leader election between several schedulers."""

    leader_elect: Bool = True
    """Whether to schedule only while holding the Lease."""
    lease_duration: Seconds = Duration(15)
    """How long the others wait, after the last sign of the leader, before one of them takes over."""
    renew_deadline: Seconds = Duration(10)
    """How long the leader tries to renew the Lease before it gives up; less than `leaseDuration`."""
    retry_period: Seconds = Duration(2)
    """How long everybody waits between two attempts at the Lease."""
    resource_lock: Annotated[Text, schema_type(enum=("", "leases"))] = "leases"
    """The kind of the lock; there are only `leases`."""
    resource_name: Text = "kube-scheduler"
    """The name of the Lease."""
    resource_namespace: Text = "kube-system"
    """The namespace of the Lease."""


class ClientConnection(ApiModel):
    """The settings of connections to the API server; a negative `qps` lifts the limit."""

    kubeconfig: str = ""
    """The kubeconfig file; without one, what the command line or the cluster around the scheduler says."""
    accept_content_types: str = ""
    """Read as in kube-scheduler; requests are JSON."""
    content_type: Text = "application/vnd.kubernetes.protobuf"
    """Read as in kube-scheduler; requests are JSON."""
    qps: Annotated[Float, ZERO_IS_DEFAULT] = 50.0
    """How many requests a second; a negative number lifts the limit."""
    burst: Annotated[Int32, ZERO_IS_DEFAULT, schema_type(minimum=0)] = 100
    """How many requests may go out at once before `qps` holds."""


class PluginEntry(ApiModel):
    """A plugin named under `enabled` or `disabled`; the weight counts for scoring, 0 meaning 1."""

    name: str = ""
    """The plugin's name: that of its entry point."""
    weight: Int32 = 0
    """What its score counts for; 0 or none means 1."""


class PluginSet(ApiModel):
    """The enabled and disabled plugins of one extension point; `*` under `disabled` means every default plugin."""

    enabled: tuple[Annotated[PluginEntry, schema_type(properties={"weight": {"minimum": 0}})], ...] = ()
    """What runs behind the default plugins, or in the place of a default one of the same name."""
    disabled: tuple[PluginEntry, ...] = ()
    """The default plugins that do not run here; `*` means all of them."""


class Plugins(ApiModel):
    """The plugins of a profile, by extension point; `multi_point` enables a plugin at every point it implements."""

    pre_enqueue: PluginSet = PluginSet()
    """Whether a pod may enter the active queue."""
    queue_sort: PluginSet = PluginSet()
    """The order of the queue; every profile has the same one."""
    pre_filter: PluginSet = PluginSet()
    """What is computed once for a pod, and which nodes need not be looked at."""
    filter: PluginSet = PluginSet()
    """Which nodes a pod may run on."""
    post_filter: PluginSet = PluginSet()
    """What is done when no node fits: preemption."""
    pre_score: PluginSet = PluginSet()
    """What is computed once for a pod before nodes are scored."""
    score: PluginSet = PluginSet()
    """How well a node suits a pod; the weights count here."""
    reserve: PluginSet = PluginSet()
    """What is set aside when a node is chosen, and given back if the pod does not get there."""
    permit: PluginSet = PluginSet()
    """Whether a pod may be bound, not at all, or has to wait."""
    pre_bind: PluginSet = PluginSet()
    """What has to be done before a pod is bound, such as preparing volumes."""
    bind: PluginSet = PluginSet()
    """Who binds the pod; the first that does ends it."""
    post_bind: PluginSet = PluginSet()
    """Who is told that a pod is bound."""
    multi_point: PluginSet = PluginSet()
    """Plugins for every point that they implement; what a point says itself goes before."""
    placement_generate: PluginSet = PluginSet()
    """Alpha in kube-scheduler: read, and not used."""
    placement_score: PluginSet = PluginSet()
    """Alpha in kube-scheduler: read, and not used."""

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
    """The plugin whose args these are."""
    args: dict[str, JsonValue] | None = None
    """The plugin's args, as its own Args has them."""


class ProfileBlock(ApiModel):
    """A profile as written: before the default plugins are merged in."""

    scheduler_name: str | None = None
    """Pods that name this scheduler are this profile's; an only profile is `default-scheduler`."""
    percentage_of_nodes_to_score: Percentage | None = None
    """In place of the setting of the same name, for the pods of this profile."""
    plugins: Plugins = Plugins()
    """What differs from the default plugins, by extension point."""
    plugin_config: tuple[PluginConfigEntry, ...] = ()
    """The args of plugins; a plugin that is not named has its defaults."""


class ExtenderTLSConfig(ApiModel):
    """The TLS settings of an extender's client; the `*_data` fields are base64 text and beat the files."""

    insecure: Bool = False
    """Whether to take any certificate: for tests only."""
    server_name: str = ""
    """The name that the server's certificate is to have, if not the host's."""
    cert_file: str = ""
    """The file of the client's certificate."""
    key_file: str = ""
    """The file of the client's key."""
    ca_file: str = ""
    """The file of the authorities whose certificates are trusted."""
    cert_data: Base64 = ""
    """The client's certificate itself; beats `certFile`."""
    key_data: Base64 = ""
    """The client's key itself; beats `keyFile`."""
    ca_data: Base64 = ""
    """The trusted authorities themselves; beat `caFile`."""


class ManagedResource(ApiModel):
    """An extended resource that an extender looks after."""

    name: str = ""
    """The extended resource."""
    ignored_by_scheduler: Bool = False
    """Whether NodeResourcesFit leaves this resource to the extender."""


class Extender(ApiModel):
    """An HTTP service that filters, scores, preempts or binds along with the plugins; an empty verb is not called."""

    url_prefix: str = ""
    """Where the service is; each verb is appended."""
    filter_verb: str = ""
    """The path at which it filters nodes."""
    preempt_verb: str = ""
    """The path at which it has a say in preemption."""
    prioritize_verb: str = ""
    """The path at which it scores nodes."""
    weight: Int64 = 0
    """What its scores count for; above 0 where there is a `prioritizeVerb`."""
    bind_verb: str = ""
    """The path at which it binds; one extender at most does."""
    enable_https: Bool = Field(default=False, alias="enableHTTPS")
    """Whether to speak HTTPS where `urlPrefix` does not say so."""
    tls_config: ExtenderTLSConfig | None = None
    """How to speak HTTPS."""
    http_timeout: Seconds = Field(default=Duration(5), alias="httpTimeout")
    """How long an answer may take."""
    node_cache_capable: Bool = False
    """Whether it knows the nodes itself, so that names are enough."""
    managed_resources: tuple[ManagedResource, ...] = ()
    """The only resources for whose pods it is asked; none means all pods."""
    ignorable: Bool = False
    """Whether pods are scheduled without it when it does not answer."""

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
    """Read as in kube-scheduler, where it is how many goroutines look at nodes."""
    leader_election: LeaderElection = LeaderElection()
    """Which of several schedulers schedules, and how the others notice that it is gone."""
    client_connection: ClientConnection = ClientConnection()
    """How to talk to the API server."""
    enable_profiling: Bool = True
    """Whether profiles are served."""
    enable_contention_profiling: Bool = Field(default_factory=lambda data: bool(data["enable_profiling"]))
    """Read as in kube-scheduler; there are no Go locks to profile."""
    percentage_of_nodes_to_score: Percentage = 0
    """How many of the nodes are looked for that fit before the best is taken; 0 means by their number."""
    pod_initial_backoff_seconds: Annotated[Int64, schema_type(minimum=1)] = 1
    """How long a pod backs off after its first attempt failed."""
    pod_max_backoff_seconds: Annotated[Int64, schema_type(minimum=1)] = 10
    """How long a pod backs off at most; each attempt doubles it."""
    extenders: tuple[Extender, ...] = ()
    """HTTP services that have a say in decisions."""
    delay_cache_until_active: Bool = False
    """Whether a scheduler that is not the leader does not watch the cluster yet."""


class KubeSchedulerConfiguration(Settings):
    """The whole document as written, defaulted but for its profiles."""

    profiles: tuple[ProfileBlock, ...] = ()
    """One scheduler each, to the pods that name it."""
