"""Text exposition: families as Prometheus (0.0.4) and OpenMetrics (1.0) read them.

Made in pieces: a collection of thousands of series is written a few hundred lines at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf, isnan
from typing import Final

from pyromq.metrics.declared import Metric, MetricKind
from pyromq.metrics.samples import Distribution, Family, ServerSamples

LINES_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class TextForm:
    """Text format of an exposition: Prometheus or OpenMetrics."""

    content_type: str
    is_open: bool  # OpenMetrics


PROMETHEUS: Final = TextForm("text/plain; version=0.0.4; charset=utf-8", False)
OPENMETRICS: Final = TextForm("application/openmetrics-text; version=1.0.0; charset=utf-8", True)


def form_for(accept: str) -> TextForm:
    """By the header Accept: OpenMetrics where it is liked best, else Prometheus, which everything reads."""
    best, found = 0.0, PROMETHEUS
    for part in accept.lower().split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        weight = next((_weight(word[2:]) for word in parameters if word.startswith("q=")), 1.0)
        form = {"application/openmetrics-text": OPENMETRICS, "text/plain": PROMETHEUS}.get(kind)
        if form is not None and weight > best:
            best, found = weight, form
    return found


def _weight(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        return 0.0
    return found if 0 <= found <= 1 else 0.0


def written(parts: Iterable[ServerSamples], form: TextForm) -> Iterator[str]:
    """The whole text, in pieces: all samples of a metric stand together, whichever part they come from."""
    by_metric: dict[str, list[tuple[Mapping[str, str], Family]]] = {}
    for part in parts:
        for family in part.families:
            if family.samples:
                by_metric.setdefault(family.metric.name, []).append((part.common, family))
    for families in by_metric.values():
        yield _head(families[0][1].metric, form)
        for common, family in families:
            yield from _samples(family, common)
    if form.is_open:
        yield "# EOF\n"


def _head(metric: Metric, form: TextForm) -> str:
    name = metric.text_name
    if form.is_open and metric.kind is MetricKind.COUNTER:
        name = name.removesuffix("_total")
    head = [f"# TYPE {name} {metric.kind.value}\n"]
    if form.is_open and metric.unit:
        head.append(f"# UNIT {name} {metric.unit}\n")
    head.append(f"# HELP {name} {_escaped_help(metric.help, form)}\n")
    return "".join(head)


def _samples(family: Family, common: Mapping[str, str]) -> Iterator[str]:
    metric = family.metric
    lines = _histogram_lines if metric.kind is MetricKind.HISTOGRAM else _lines
    for start in range(0, len(family.samples), LINES_AT_ONCE):
        yield "".join(lines(metric, common, family.samples[start : start + LINES_AT_ONCE]))


def _lines(metric: Metric, common: Mapping[str, str], samples: Sequence[tuple[tuple[str, ...], object]]) -> list[str]:
    pattern = f"{metric.text_name}{_label_pattern(metric.labels, common)} %s\n"
    if not metric.labels:
        return [pattern % shown(value) for _, value in samples]
    return [pattern % (*map(escaped, labels), shown(value)) for labels, value in samples]


def _histogram_lines(
    metric: Metric, common: Mapping[str, str], samples: Sequence[tuple[tuple[str, ...], object]]
) -> list[str]:
    plain, bounded = _label_pattern(metric.labels, common), _label_pattern((*metric.labels, "le"), common)
    bucket, name = f"{metric.text_name}_bucket{bounded} %d\n", metric.text_name
    bounds = [*(shown(float(bound)) for bound in metric.buckets), "+Inf"]
    found = []
    for labels, value in samples:
        assert isinstance(value, Distribution)
        texts, count = tuple(map(escaped, labels)), 0
        for bound, of_bucket in zip(bounds, value.counts, strict=True):
            count += of_bucket
            found.append(bucket % (*texts, bound, count))
        own = plain % texts if texts else plain % ()
        found.append(f"{name}_sum{own} {shown(value.total)}\n{name}_count{own} {count}\n")
    return found


def _label_pattern(labels: Sequence[str], common: Mapping[str, str]) -> str:
    """For ``%``, with a place for each of ``labels``."""
    pairs = [f'{name}="{escaped(value).replace("%", "%%")}"' for name, value in common.items() if name not in labels]
    pairs += [f'{name}="%s"' for name in labels]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def escaped(text: str) -> str:
    """The value of a label, as it stands between quotes."""
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def _escaped_help(text: str, form: TextForm) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if form.is_open else text


def shown(value: object) -> str:
    """Format a number."""
    if isinstance(value, float):
        if isnan(value):
            return "NaN"
        if isinf(value):
            return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def whole_text(parts: Iterable[ServerSamples], form: TextForm = PROMETHEUS) -> bytes:
    """All of it at once, for tests and what is small."""
    return encoded("".join(written(parts, form)))


def encoded(text: str) -> bytes:
    """Names that came as broken UTF-8 hold lone surrogates."""
    return text.encode("utf-8", "replace")
