"""The Grafana dashboard, made from the table of metrics: a panel for each that has one in ``panels``."""

from __future__ import annotations

from typing import Any, Final

from pyromq.metrics.declared import Metric, MetricKind, MetricOwner
from release.monitoring.metrics import METRICS
from release.monitoring.panels import PANELS, Panel, Row

_WIDTH: Final = 24
_PANEL_WIDTH: Final = 8
_PANEL_HEIGHT: Final = 7
_TOP: Final = 20  # lines of one panel; a broker has thousands of topics
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_UNITS: Final = {"milliseconds": "ms", "seconds": "s", "bytes": "bytes", "ratio": "percentunit", "": "short"}
_CHOSEN: Final = 'cluster=~"$cluster",node_id=~"$node"'


def dashboard() -> dict[str, Any]:
    """Build the dashboard in the form that Grafana imports."""
    return {
        "title": "PyroMQ",
        "uid": "pyromq",
        "tags": ["pyromq", "rocketmq"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": _panels(),
    }


def _variables() -> list[dict[str, Any]]:
    def chosen(name: str, label: str, title: str) -> dict[str, Any]:
        query = f"label_values(rocketmq_topic_number, {label})"
        return {
            "name": name,
            "label": title,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "definition": query,
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }

    source = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return [source, chosen("cluster", "cluster", "Cluster"), chosen("node", "node_id", "Broker")]


def _panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    at = 0
    for row in Row:
        mine = [(each, PANELS[each]) for each in METRICS if each in PANELS and PANELS[each].row is row]
        found.append(_row(row, at, len(found) + 1))
        at += 1
        for number, (metric, panel) in enumerate(mine):
            line, column = divmod(number, _WIDTH // _PANEL_WIDTH)
            place = {
                "x": column * _PANEL_WIDTH,
                "y": at + line * _PANEL_HEIGHT,
                "w": _PANEL_WIDTH,
                "h": _PANEL_HEIGHT,
            }
            found.append(_panel(metric, panel, place, len(found) + 1))
        at += -(-len(mine) // (_WIDTH // _PANEL_WIDTH)) * _PANEL_HEIGHT
    return found


def _row(row: Row, at: int, number: int) -> dict[str, Any]:
    place = {"x": 0, "y": at, "w": _WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": row.value, "collapsed": False, "gridPos": place, "panels": []}


def _panel(metric: Metric, panel: Panel, place: dict[str, int], number: int) -> dict[str, Any]:
    legend = " ".join(f"{{{{{label}}}}}" for label in panel.by) or "{{node_id}}"
    unit = (
        _UNITS[metric.unit]
        if metric.kind is not MetricKind.COUNTER
        else "Bps"
        if "throughput" in metric.name
        else "cps"
    )
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": metric.help,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": expression(metric, panel), "legendFormat": legend}],
    }


def expression(metric: Metric, panel: Panel) -> str:
    """What a panel asks Prometheus for."""
    own = metric.servers == (MetricOwner.EXPORTER,) or MetricOwner.NAMESERVER in metric.servers
    chosen = "" if own else f"{{{_CHOSEN}}}"
    by = ", ".join(panel.by or ("node_id",))
    match metric.kind:
        case MetricKind.COUNTER:
            asked = f"sum by ({by}) (rate({metric.text_name}{chosen}[$__rate_interval]))"
        case MetricKind.HISTOGRAM:
            rate = f"rate({metric.text_name}_bucket{chosen}[$__rate_interval])"
            asked = f"histogram_quantile({panel.quantile}, sum by (le, {by}) ({rate}))"
        case MetricKind.GAUGE:
            asked = f"max by ({by}) ({metric.text_name}{chosen})"
    return f"topk({_TOP}, {asked})" if panel.by else asked
