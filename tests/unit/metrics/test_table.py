"""The table of metrics, and what is made from it."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.metrics.declared import MetricKind
from pyromq.metrics.exporter_table import ALSO_EXPORTED
from pyromq.metrics.settings import MetricsSettings
from release.monitoring.alerts import ALERTS, names_in, rules_text
from release.monitoring.dashboard import dashboard
from release.monitoring.metrics import BY_NAME, METRICS, SERIES
from release.monitoring.page import exporter_rows, server_rows
from release.monitoring.panels import PANELS

ROOT = Path(__file__).parents[3]


def test_names_are_declared_once_and_are_names() -> None:
    assert len(BY_NAME) == len(METRICS) and len({metric.text_name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"(rocketmq|pyromq)_[a-z0-9_]+", metric.name), metric.name
        assert metric.help.endswith(".") and metric.source
        assert metric.kind is MetricKind.COUNTER or not metric.name.endswith("_total")
        labels = set(metric.labels)
        assert len(labels) == len(metric.labels)
        assert not labels & {"le", "cluster", "node_type", "node_id"} and all(map(str.isidentifier, labels))


def test_units_of_rocketmq_are_suffixes() -> None:
    told = {metric.text_name for metric in METRICS}
    assert {
        "rocketmq_consumer_lag_latency_milliseconds",
        "rocketmq_rpc_latency_milliseconds",
        "rocketmq_storage_size_bytes",
        "rocketmq_storage_flush_behind_bytes",
        "rocketmq_message_size",
        "rocketmq_messages_in_total",
    } <= told


def test_the_page_has_every_metric() -> None:
    """Run tests/unit/metrics/write_page.py when this fails."""
    text = (ROOT / "docs/how-to/metrics.md").read_text(encoding="utf-8")
    for mark, rows in (("metrics of servers", server_rows()), ("metrics of the exporter", exporter_rows())):
        table = text.partition(f"<!-- {mark} -->\n")[2].partition("<!-- end -->")[0].splitlines()
        assert table[2:] == rows
    assert set(ALSO_EXPORTED) <= set(METRICS)


def test_dashboard_and_rules_are_up_to_date() -> None:
    """Run deploy/generate.py when this fails."""
    made = runpy.run_path(str(ROOT / "deploy" / "generate.py"))["files"]()
    assert len(made) == 2
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_every_panel_asks_for_a_metric_that_exists_and_labels_that_it_has() -> None:
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])
    assert len(panels) == len(PANELS)
    places = [tuple(panel["gridPos"].values()) for panel in panels]
    assert len(set(places)) == len(places)
    for panel in panels:
        (target,) = panel["targets"]
        (name,) = names_in(target["expr"])
        metric = SERIES[name]
        asked = {label for part in re.findall(r"by \((.*?)\)", target["expr"]) for label in part.split(", ")}
        assert asked <= {*metric.labels, "le", "node_id"}, panel["title"]
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= {*metric.labels, "node_id"}
        assert target["expr"].count("(") == target["expr"].count(")")
    json.dumps(dashboard())


def test_every_alert_asks_for_a_metric_that_exists() -> None:
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    for alert in ALERTS:
        assert names_in(alert.expression) <= SERIES.keys()
        labels = {*SERIES[next(iter(names_in(alert.expression)))].labels, "cluster", "node_id"}
        assert set(re.findall(r"\$labels\.(\w+)", alert.summary)) <= labels, alert.name
        assert alert.severity in ("page", "ticket") and re.fullmatch(r"\d+m", alert.lasting)
    assert rules_text().count("- alert:") == len(ALERTS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 70_000},
        {"port": -1},
        {"series_max": 0},
        {"labels": ("no colon",)},
        {"labels": ("1zone:a",)},
        {"labels": ("__name:a",)},
        {"otlp_endpoint": "collector:4318"},
        {"otlp_endpoint": "http://user:secret@collector:4318"},
        {"otlp_endpoint": "http://collector:99999"},
        {"otlp_interval_ms": 10},
        {"otlp_timeout_ms": 0},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_told(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.\w+"):
        MetricsSettings(**wrong)  # type: ignore[arg-type]


def test_labels_of_all_series() -> None:
    assert MetricsSettings(labels=("zone:a", "url:http://x")).label_values == {"zone": "a", "url": "http://x"}
