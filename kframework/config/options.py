"""The options of our own (`kframework.dev/v1`), which stand in a document beside the KubeSchedulerConfiguration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic.alias_generators import to_camel

from kframework.config.decode import ApiModel, Bool, Int32, Int64, in_schema
from kframework.config.duration import Duration
from kframework.objects.problem import Problem, invalid
from kframework.objects.quantity import QuantityError, value

#: The kind of the document that has our own options, and its apiVersion.
OPTIONS_KIND = "KFrameworkConfiguration"
OPTIONS_API_VERSION = "kframework.dev/v1"

_NOT_POSITIVE = "must be greater than zero"


class Tracing(ApiModel):
    """Where traces go, and how many of a million scheduling attempts are traced."""

    exporter: Literal["none", "console", "otlp"] = "none"
    """`console` writes spans to stderr, `otlp` sends them to `endpoint`."""
    endpoint: str | None = None
    """The collector's address."""
    sampling_rate_per_million: Annotated[Int32, in_schema(minimum=0, maximum=1_000_000)] = 0
    """How many of a million attempts are traced."""


class HookTimeouts(ApiModel):
    """How long plugins may take where they may wait, in seconds: for a hook, for one fetch of a source."""

    start: Duration = Duration(30)
    """A plugin may have to load what it works with. A process that says after this why it ends is started again."""
    source: Duration = Duration(30)
    """As long as the scheduler's own requests to the API server."""
    pre_bind: Duration = Duration(600)
    """What kube-scheduler gives volumes and devices to be prepared (bindTimeoutSeconds, bindingTimeout)."""
    bind: Duration = Duration(60)
    """Two requests that get no answer. What `handle.api.bind` takes to be certain does not count."""
    post_bind: Duration = Duration(30)
    """Nobody waits for it but the end of a scheduler that stops."""
    close: Duration = Duration(5)
    """With all that comes before it less than the 30 s that Kubernetes gives a pod to end."""


class Options(ApiModel):
    """What kube-scheduler's file has no field for."""

    seed: Int64 = 0
    """Where every random choice starts."""
    layer_memory: str = "256Mi"
    """How much memory remembered answers may take: a quantity in bytes."""
    tracing: Tracing = Tracing()
    """Where traces go."""
    pod_max_in_unschedulable_pods_duration: Duration = Duration(300)
    """When a pod that no event has woken is tried again all the same; kube-scheduler's flag of that name."""
    preempt_other_schedulers_pods: Bool = True
    """Whether pods that ask for a scheduler that is none of the profiles may be preempted."""
    hook_timeouts: HookTimeouts = HookTimeouts()
    """How long plugins may take where they may wait."""

    @property
    def layer_memory_bytes(self) -> int:
        """The size of the memory for remembered answers, in bytes."""
        return value(self.layer_memory)

    def problems(self) -> Iterator[Problem]:
        """List what is out of range."""
        try:
            if self.layer_memory_bytes < 0:
                yield invalid(("layerMemory",), self.layer_memory, "must be non-negative")
        except QuantityError as error:
            yield Problem(("layerMemory",), str(error))
        rate = self.tracing.sampling_rate_per_million
        if not 0 <= rate <= 1_000_000:
            yield invalid(("tracing", "samplingRatePerMillion"), rate, "not in valid range [0, 1000000]")
        duration = self.pod_max_in_unschedulable_pods_duration
        if duration <= 0:
            yield invalid(("podMaxInUnschedulablePodsDuration",), str(duration), _NOT_POSITIVE)
        for name, timeout in self.hook_timeouts:
            if timeout <= 0:
                yield invalid(("hookTimeouts", to_camel(name)), str(timeout), _NOT_POSITIVE)
