"""What the plugins' Args have in common: where the measured load of nodes comes from."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, Field, SecretStr, model_validator

from kframework import PluginArgs


class MetricProvider(BaseModel):
    """A server or file that knows the load of nodes."""

    type: Literal["KubernetesMetricsServer", "Prometheus", "SignalFx", "File"] = "KubernetesMetricsServer"
    address: str = ""
    """The URL of Prometheus, or the path of a file; the metrics server is asked through the API server."""
    token: SecretStr = SecretStr("")
    """The bearer token for Prometheus."""
    insecure_skip_verify: bool = True
    """Whether a server's certificate is not verified."""


class TrimaranArgs(PluginArgs):
    """The common part of the Args, with the names and defaults of scheduler-plugins."""

    metric_provider: MetricProvider = Field(default_factory=MetricProvider)
    watcher_address: str = ""
    """The URL of a load-watcher service, which is then asked instead of the metric provider."""

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        provider = self.metric_provider
        if self.watcher_address:
            return self
        if provider.type == "SignalFx":
            raise ValueError("SignalFx is read through load-watcher only: set watcherAddress")
        if provider.type == "File" and not provider.address:
            raise ValueError("metricProvider of type File needs the path of the file as its address")
        return self
