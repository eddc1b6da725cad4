"""The options of our own (`kframework.dev/v1`), which stand in a document beside the KubeSchedulerConfiguration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic.alias_generators import to_camel

from kframework.config.decode import ApiModel, Bool, Int32, Int64
from kframework.config.duration import Duration
from kframework.config.problems import Problem, invalid
from kframework.objects.quantity import QuantityError, value

OPTIONS_KIND = "KFrameworkConfiguration"
OPTIONS_API_VERSION = "kframework.dev/v1"

_NOT_POSITIVE = "must be greater than zero"


class Tracing(ApiModel):
    """Where traces go, and how many of a million scheduling attempts are traced."""

    exporter: Literal["none", "console", "otlp"] = "none"
    endpoint: str | None = None
    sampling_rate_per_million: Int32 = 0


class HookTimeouts(ApiModel):
    """How long plugins may take where they may wait, in seconds: for a hook, for one fetch of a source."""

    #: A plugin may have to load what it works with. A process that says after this why it ends is started again.
    start: Duration = Duration(30)
    #: As long as the scheduler's own requests to the API server.
    source: Duration = Duration(30)
    #: What kube-scheduler gives volumes and devices to be prepared (bindTimeoutSeconds, bindingTimeout).
    pre_bind: Duration = Duration(600)
    #: Two requests that get no answer. What `handle.api.bind` takes to be certain does not count.
    bind: Duration = Duration(60)
    #: Nobody waits for it but the end of a scheduler that stops.
    post_bind: Duration = Duration(30)
    #: With all that comes before it less than the 30 s that Kubernetes gives a pod to end.
    close: Duration = Duration(5)


class Options(ApiModel):
    """What kube-scheduler's file has no field for.

    `seed` starts every random choice; `layer_memory` is the size of the memory for remembered answers, a quantity in
    bytes; `pod_max_in_unschedulable_pods_duration` is kube-scheduler's flag of that name, in seconds. Without
    `preempt_other_schedulers_pods` pods that ask for a scheduler that is none of the profiles are never preempted.
    """

    seed: Int64 = 0
    layer_memory: str = "256Mi"
    tracing: Tracing = Tracing()
    pod_max_in_unschedulable_pods_duration: Duration = Duration(300)
    preempt_other_schedulers_pods: Bool = True
    hook_timeouts: HookTimeouts = HookTimeouts()

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
