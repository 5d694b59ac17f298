"""Metrics as Prometheus reads them: text, one line per value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    name: str
    help: str
    kind: Literal["gauge", "counter"] = "gauge"
    values: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        self.values.append((labels, value))


def as_text(metrics: Iterable[Metric]) -> str:
    r"""Those that have values; labels in their order, whatever is in them.

    >>> lag = Metric(name="neve_lag_seconds", help="How far rows lie behind.")
    >>> lag.add(1.5, table='a"b')
    >>> print(as_text([lag]), end="")
    # HELP neve_lag_seconds How far rows lie behind.
    # TYPE neve_lag_seconds gauge
    neve_lag_seconds{table="a\"b"} 1.5
    """
    lines = []
    for metric in metrics:
        if metric.values:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [f"{metric.name}{_labels(labels)} {_number(value)}" for labels, value in metric.values]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    said = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{{{said}}}" if said else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
