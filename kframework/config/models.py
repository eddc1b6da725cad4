"""The blocks of a KubeSchedulerConfiguration (`kubescheduler.config.k8s.io/v1`) as written, with their defaults.

Numbers are in the units that the field names say, durations in seconds. Where Go's zero value means "not given"
(an empty text, `0s`), the default takes its place, as in kube-scheduler.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, JsonValue

from kframework.config.decode import ZERO_IS_DEFAULT, ApiModel, Base64, Bool, Float, Int32, Int64
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


class LeaderElection(ApiModel):
    """How one of several schedulers is made the active one."""

    leader_elect: Bool = True
    lease_duration: Seconds = Duration(15)
    renew_deadline: Seconds = Duration(10)
    retry_period: Seconds = Duration(2)
    resource_lock: Text = "leases"
    resource_name: Text = "kube-scheduler"
    resource_namespace: Text = "kube-system"


class ClientConnection(ApiModel):
    """How to talk to the API server; a negative `qps` lifts the limit."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: Text = "application/vnd.kubernetes.protobuf"
    qps: Annotated[Float, ZERO_IS_DEFAULT] = 50.0
    burst: Annotated[Int32, ZERO_IS_DEFAULT] = 100


class PluginEntry(ApiModel):
    """A plugin named under `enabled` or `disabled`; the weight counts for scoring, 0 meaning 1."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(ApiModel):
    """What one extension point enables and disables; `*` under `disabled` means every default plugin."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


class Plugins(ApiModel):
    """The plugins of a profile, by extension point; `multi_point` enables a plugin at every point it implements."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def key(self, key: str) -> PluginSet:
        """Return the set of an extension point or of `multi_point`, by its snake_case name."""
        return self.sets()[key]

    def sets(self) -> dict[str, PluginSet]:
        """Return all sets by snake_case key, in the order in which kube-scheduler declares them."""
        return {key: getattr(self, key) for key in Plugins.model_fields}

    def enabled_names(self) -> tuple[str, ...]:
        """Return the names enabled under any key, sorted: the plugins of which an instance is made."""
        return tuple(sorted({entry.name for plugins in self.sets().values() for entry in plugins.enabled}))


class PluginConfigEntry(ApiModel):
    """The arguments of one plugin as written; which model they have is for the plugin to say."""

    name: str = ""
    args: dict[str, JsonValue] | None = None


class ProfileBlock(ApiModel):
    """A profile as written: before the default plugins are merged in."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfigEntry, ...] = ()


class ExtenderTLSConfig(ApiModel):
    """The TLS settings of an extender's client; the `*_data` fields are base64 text and beat the files."""

    insecure: Bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: Base64 = ""
    key_data: Base64 = ""
    ca_data: Base64 = ""


class ManagedResource(ApiModel):
    """An extended resource that an extender looks after."""

    name: str = ""
    ignored_by_scheduler: Bool = False


class Extender(ApiModel):
    """An HTTP service that filters, scores, preempts or binds along with the plugins; an empty verb is not called."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: Bool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Seconds = Field(default=Duration(5), alias="httpTimeout")
    node_cache_capable: Bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: Bool = False

    @property
    def address(self) -> str:
        """`url_prefix` as it may be shown: a password in it is withheld."""
        return without_password(self.url_prefix)


def without_password(url: str) -> str:
    """Withhold the password in a URL, as Go does where it shows one."""
    return re.sub(r"(://[^/@:]*:)[^/@]*@", r"\1xxxxx@", url)


class Settings(ApiModel):
    """All of a KubeSchedulerConfiguration but its profiles.

    `percentage_of_nodes_to_score` 0 means adaptive.
    """

    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: Bool = True
    enable_contention_profiling: Bool = Field(default_factory=lambda data: bool(data["enable_profiling"]))
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: Bool = False


class KubeSchedulerConfiguration(Settings):
    """The whole document as written, defaulted but for its profiles."""

    profiles: tuple[ProfileBlock, ...] = ()
