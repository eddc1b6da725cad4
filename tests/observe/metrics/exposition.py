"""Reading metrics back as Prometheus does."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from kframework.observe.metrics.series import Series, format_series

__all__ = ["count_of", "samples", "sum_of", "text", "values"]


def text(series: Iterable[Series]) -> str:
    """Write series as they are shown."""
    return "".join(piece for each in series for piece in format_series(each))


def samples(text: str) -> dict[str, float]:
    """Map what is shown to its value; a series is called as Prometheus prints it, labels in order of their names."""
    return {
        named(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def named(name: str, labels: dict[str, str]) -> str:
    pairs = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{pairs}}}" if pairs else name


def values(series: Iterable[Series], name: str) -> dict[tuple[str, ...], float]:
    """Map the values of the labels, in order of their names, to those of one metric."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text(series))
        for sample in family.samples
        if sample.name == name
    }


def count_of(series: Iterable[Series], name: str) -> dict[tuple[str, ...], float]:
    """Map the values of the labels to how many values a histogram has observed."""
    return values(series, f"{name}_count")


def sum_of(series: Iterable[Series], name: str) -> dict[tuple[str, ...], float]:
    """Map the values of the labels to the sum of what a histogram has observed."""
    return values(series, f"{name}_sum")
