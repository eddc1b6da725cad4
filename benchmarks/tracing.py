"""What traces cost a pod, in microseconds of processor time: the spans of its attempt and binding, made and encoded.

Run with `python -m benchmarks.tracing`. The records are those of pods that are scheduled on 5,000 nodes, with their
plugins timed; spans go through the batches that a collector gets, but no further.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from time import process_time

from msgspec.structs import replace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from benchmarks.cycle import cycles, make_engine
from benchmarks.timing import show
from kframework.core.cycle.records import Binding, Decision
from kframework.observe.tracing.spans import SAMPLE_ALL, Tracing
from kframework.values.status import Code

#: So many pods are traced at each rate.
TRACED = 2_000


class EncodingExporter(SpanExporter):
    """Encodes spans, and drops them where others would send them."""

    def __init__(self) -> None:
        self.spans = self.bytes = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Encode a batch."""
        self.spans += len(spans)
        self.bytes += len(encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS


def schedule_pods(timed_share: float, count: int) -> tuple[list[Decision], float]:
    """Schedule pods, timing the plugins of a share of them; return the decisions and the median microseconds."""
    engine, host = make_engine()
    engine.timed_share = timed_share
    list(cycles(engine, host, 1, 50))
    host.decisions.clear()
    times = list(cycles(engine, host, 1, count, first=100_000))
    return host.decisions, statistics.median(times) / 1000


def binding(decision: Decision) -> Binding:
    """Make the binding cycle of an attempt as the default profile has it."""
    points = ("pre_bind_pre_flight", "wait_on_permit", "bind", "post_bind")
    return Binding(
        attempt=decision.attempt,
        pod=decision.pod,
        uid=decision.uid,
        profile=decision.profile,
        node=decision.node,
        started_at=decision.popped_at,
        ended_at=decision.popped_at,
        code=Code.SUCCESS,
        sample_value=decision.sample_value,
        steps=tuple((point, 1_000, Code.SUCCESS) for point in points),
        plugins=(("bind", "DefaultBinder", 1_000, Code.SUCCESS),),
    )


def cost(share: float, decisions: Sequence[Decision], exporter: EncodingExporter) -> float:
    """Return the microseconds of all threads that a pod costs when this share of them is traced."""
    evenly = [replace(decision, sample_value=index / len(decisions)) for index, decision in enumerate(decisions)]
    bindings = [binding(decision) for decision in evenly]
    processor = BatchSpanProcessor(exporter, max_queue_size=1 << 20)
    tracing = Tracing(processor, rate_per_million=round(share * SAMPLE_ALL))
    rounds = round(TRACED / len(decisions) / (share or 0.01))
    began = process_time()
    for _ in range(rounds):
        for decision, bound in zip(evenly, bindings, strict=True):
            tracing.on_decision(decision)
            tracing.on_binding(bound)
    tracing.close()
    return (process_time() - began) / (rounds * len(decisions)) * 1e6


def main() -> None:
    """Print what a pod costs at several rates."""
    decisions, timed = schedule_pods(1.0, 1_000)
    _, untimed = schedule_pods(0.0, 1_000)
    rows = []
    for share in (0.0, 0.01, 0.1, 1.0):
        exporter = EncodingExporter()
        spans = min(cost(share, decisions, exporter) for _ in range(3))
        rows.append((f"{share:.0%}", spans, share * (timed - untimed)))
    show(("traced", "spans", "timing plugins"), rows)
    print(f"\na traced pod has {exporter.spans / TRACED / 3:.0f} spans, {exporter.bytes / TRACED / 3:.0f} bytes")


if __name__ == "__main__":
    main()
