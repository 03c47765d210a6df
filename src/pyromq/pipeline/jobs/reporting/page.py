"""A report as one HTML page: charts, tables, nothing from elsewhere, no scripts. Pure.

All text that comes from messages is escaped; the page also says what it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from pyromq.charts import (
    COLOURS,
    PALETTE_DARK,
    PALETTE_LIGHT,
    Axes,
    Bar,
    Series,
    bar_chart,
    largest,
    line_chart,
    shades_legend,
)
from pyromq.pipeline.jobs.reporting.numbers import Point, Report
from pyromq.wording import shown_span, shown_time

_LIGHT, _DARK = (
    ";".join(f"--c{number}:{colour}" for number, colour in enumerate(palette))
    for palette in (PALETTE_LIGHT, PALETTE_DARK)
)
_STYLE: Final = (
    f""":root{{color-scheme:light dark;
--bg:#fff;--fg:#1b1f24;--dim:#667;--line:#e3e6ea;--card:#f7f8fa;{_LIGHT}}}
@media(prefers-color-scheme:dark){{:root{{--bg:#14171b;--fg:#e6e8eb;--dim:#9aa3ad;--line:#2b3138;--card:#1b2026;{_DARK}}}}}
"""
    + """
*{box-sizing:border-box}
body{margin:0 auto;max-width:1080px;padding:2rem 1.2rem 4rem;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
h1{margin:0;font-size:1.6rem}h2{margin:2.4rem 0 .6rem;font-size:1.15rem}
p{color:var(--dim);margin:.3rem 0 .6rem}
.cards{display:flex;flex-wrap:wrap;gap:.8rem;margin:1.4rem 0}
.card{flex:1 1 9rem;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.7rem 1rem}
.card b{display:block;font-size:1.5rem;font-variant-numeric:tabular-nums}.card span{color:var(--dim);font-size:.85rem}
svg{display:block}svg.chart:not(.lines){width:100%;height:auto;background:var(--card);border:1px solid var(--line);
border-radius:8px;padding:4px}
svg.lines{width:calc(100% - 72px);margin:0 12px 0 60px;overflow:visible}
svg text{fill:var(--dim);font-size:11px}svg .value{fill:var(--fg)}svg .unit{font-style:italic}
svg .grid{stroke:var(--line)}svg .line{fill:none;stroke-width:1.8}svg .area{opacity:.1}
.shade1{opacity:.5}.shade2{opacity:.25}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;margin:.5rem 0;padding:0;list-style:none;color:var(--dim);
font-size:.85rem}
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:.6rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .8rem;border-bottom:1px solid var(--line);text-align:left;overflow-wrap:anywhere}
tr>:first-child{padding-left:0}tr>:last-child{padding-right:0}
th{font-weight:600;color:var(--dim)}td.n,th.n{text-align:right;overflow-wrap:normal;white-space:nowrap}
"""
    + "".join(
        f"svg .line.s{number}{{stroke:var(--c{number})}}svg .area.s{number},svg .bar.s{number}{{fill:var(--c{number})}}"
        f".legend .s{number}{{background:var(--c{number})}}\n"
        for number in range(COLOURS)
    )
)


def page(report: Report) -> str:
    """The page, UTF-8 when written."""
    title = f"PyroMQ report: {', '.join(report.topics)}"
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(', '.join(report.topics))}</h1>",
        f"<p>{escape(_subtitle(report))}</p>",
        _cards(report),
        _throughput(report),
        _latencies(report),
        _lags(report),
        _attempts(report),
        _keys(report),
        _dead(report),
        "</body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _subtitle(report: Report) -> str:
    when = f"{shown_time(report.begin_ms)} to {shown_time(report.end_ms)}" if report.throughput else "no messages"
    return f"{when} · {report.nameserver} · made {shown_time(report.made_ms)} in {report.took_s:.1f} s"


def _cards(report: Report) -> str:
    whole = [each for each in report.latencies if each.what == "end to end"]
    slowest = max((each.p99_ms for each in whole), default=None)
    cards = (
        ("messages", _count(sum(each.messages for each in report.throughput))),
        ("topic" if len(report.throughput) == 1 else "topics", _count(len(report.throughput))),
        ("group" if len(report.groups) == 1 else "groups", _count(len(report.groups))),
        ("end to end, p99", "?" if slowest is None else _ms(slowest)),
        ("behind now", _count(sum(each.last for each in report.lags)) if report.lags else "?"),
        ("dead letters", _count(sum(each.count for each in report.dead))),
    )
    inner = "".join(f"<div class=card><b>{value}</b><span>{name}</span></div>" for name, value in cards)
    return f'<div class="cards">{inner}</div>'


def _throughput(report: Report) -> str:
    lines = [_series(each.topic, each.points) for each in report.throughput]
    rows = [
        (
            each.topic,
            _count(each.messages),
            f"{each.per_second:,.1f}",
            shown_time(each.first_ms),
            shown_time(each.last_ms),
        )
        for each in report.throughput
    ]
    heads = ("topic", "#messages", "#a second", "first", "last")
    text = f"Messages a second, by the time brokers stored them.{_of_many(lines)}"
    return _section("Throughput", text, _lines(lines, "messages a second"), heads, rows)


def _latencies(report: Report) -> str:
    one_topic = len({each.topic for each in report.latencies}) == 1
    bars = [
        Bar(
            " · ".join(filter(None, (each.what, each.group, "" if one_topic and each.group else each.topic))),
            (each.p50_ms, each.p90_ms, each.p99_ms),
            f"{_ms(each.p50_ms)} / {_ms(each.p90_ms)} / {_ms(each.p99_ms)}",
        )
        for each in report.latencies
    ]
    rows = [
        (
            each.what,
            each.topic,
            each.group,
            _count(each.count),
            *map(_ms, (each.p50_ms, each.p90_ms, each.p99_ms, each.max_ms)),
        )
        for each in report.latencies
    ]
    heads = ("what", "topic", "group", "#count", "#p50", "#p90", "#p99", "#max")
    text = "Storing: born to stored; queueing: stored to first handed to a listener; "
    text += "handling: inside the listener; end to end: born to handled with success."
    if not report.has_trace:
        text += " There is no trace topic, so consumers told nothing: only storing is known."
    chart = bar_chart(bars, "latencies")
    return _section("Latency", text, chart and chart + shades_legend(("p50", "p90", "p99")), heads, rows)


def _lags(report: Report) -> str:
    lines = [_series(f"{each.group} · {each.topic}", each.points) for each in report.lags if each.points]
    rows = [(each.group, each.topic, _count(each.last), _count(each.max)) for each in report.lags]
    text = "Stored and not yet handled; the times are from the trace of consumers, what is left now from their offsets."
    text += f" Of groups without trace there is no line.{_of_many(lines)}"
    chart = _lines(lines, "messages behind")
    return _section("Lag over time", text, chart, ("group", "topic", "#now", "#most"), rows)


def _series(name: str, points: Sequence[Point]) -> Series:
    return Series(name, [(point.time_ms, point.value) for point in points])


def _lines(lines: Sequence[Series], unit: str) -> str:
    return line_chart(largest(lines), unit, Axes(unit=unit, height=232))


def _of_many(lines: Sequence[Series]) -> str:
    return f" The chart has the {COLOURS} largest." if len(lines) > COLOURS else ""


def _attempts(report: Report) -> str:
    bars = [
        Bar(f"{each.group} · attempt {each.attempt}", (float(each.count),), _count(each.count))
        for each in report.attempts
    ]
    text = "How often messages were handed to listeners, by attempt; 1 is the first, and known from the trace alone."
    section = _section("Attempts", text, bar_chart(bars, "attempts"))
    rows = [(each.group, each.topic, _count(each.messages)) for each in report.handled_twice]
    text = "Messages that a group handled with success more than once."
    return section + _section("Handled more than once", text, "", ("group", "topic", "#messages"), rows)


def _keys(report: Report) -> str:
    slow = [(each.key, each.group, _count(each.count), _ms(each.avg_ms), _ms(each.max_ms)) for each in report.slow_keys]
    twice = [(each.key, each.topic, _count(each.count)) for each in report.duplicates]
    text = "Keys that several messages carry."
    if report.duplicate_keys > len(twice):
        text += f" The most frequent of {_count(report.duplicate_keys)}."
    return _section(
        "Slowest keys", "By the longest time in a listener.", "", ("key", "group", "#count", "#mean", "#max"), slow
    ) + _section("Duplicates by key", text, "", ("key", "topic", "#messages"), twice)


def _dead(report: Report) -> str:
    bars = [
        Bar(" · ".join(filter(None, (each.group, each.cause))), (float(each.count),), _count(each.count))
        for each in report.dead
    ]
    rows = [
        (each.group, each.topic, each.cause, each.stack, _count(each.count), _time(each.first_ms), _time(each.last_ms))
        for each in report.dead
    ]
    heads = ("group", "topic", "cause", "hash", "#dead letters", "first seen", "last seen")
    return _section("Dead letters", "What groups gave up on, and why.", bar_chart(bars, "dead letters"), heads, rows)


def _time(time_ms: int) -> str:
    return shown_time(time_ms) if time_ms else ""


def _section(title: str, text: str, chart: str, heads: Sequence[str] = (), rows: Iterable[Sequence[str]] = ()) -> str:
    table = _table(heads, list(rows))
    if not chart and not table:
        return f"<h2>{title}</h2><p>{escape(text)} Nothing of the kind was found.</p>"
    return f"<h2>{title}</h2><p>{escape(text)}</p>{chart}{table}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Heads with # are of numbers."""
    if not rows:
        return ""
    kinds = [' class="n"' if head.startswith("#") else "" for head in heads]
    top = "".join(f"<th{kind}>{escape(head.lstrip('#'))}</th>" for head, kind in zip(heads, kinds, strict=True))
    lines = ("".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _count(value: int) -> str:
    return f"{value:,}"


def _ms(value: float) -> str:
    if value < 1:
        return "< 1 ms"
    return f"{value:,.0f} ms" if value < 10_000 else shown_span(int(value))
