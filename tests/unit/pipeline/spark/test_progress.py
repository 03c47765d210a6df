"""The query listener: whose progress it stores, and where."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.errors import ConnectFailedError
from pyromq.model.queue import QueueId
from pyromq.operate.query_reports import SourceQueue, SourceReport, read_reports
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.spark.progress import ProgressListener, _Ear, progress_of


def _source(latest: Any, end: Any) -> Any:
    return SimpleNamespace(latestOffset=json.dumps(latest), endOffset=json.dumps(end))


OURS = _source(
    {"offsets": {"orders": {"broker-a": {"0": 9}}}, "lag": 2, "group": "g", "nameserver": "n:1"},
    {"orders": {"broker-a": {"0": 7}}, "deleted": {"broker-a": {"0": 4}}},
)


def test_progress_of_other_sources_is_left_alone() -> None:
    other = _source({"orders": {"0": 3}}, {"orders": {"0": 3}})
    none = SimpleNamespace(latestOffset=None, endOffset=None)
    bare = SimpleNamespace(latestOffset="7", endOffset="not json")
    (found,) = progress_of([other, OURS, none, bare])
    assert (found.group, found.nameserver) == ("g", "n:1")
    assert found.offsets == ((QueueId("orders", "broker-a", 0), 7),), "of a topic that is gone nothing is stored"


def test_the_listener_tells_the_group_and_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []

    class Brokers:
        def __init__(self, options: SourceOptions) -> None:
            self.options = options

        def commit(self, offsets: Any) -> None:
            told.append((self.options.nameserver, self.options.group, self.options.access_key, offsets))
            if len(told) > 1:
                raise ConnectFailedError("gone")

    listener = ProgressListener(SourceOptions(access_key="me"), Brokers)  # type: ignore[arg-type]
    text = json.dumps({"id": "q-1", "batchId": 3, "sources": [{"description": "other"}, vars(OURS)]})  # as Spark has it
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=text)))
    _Ear(listener).onQueryProgress(SimpleNamespace(progress=lambda: SimpleNamespace(json=lambda: text)))
    assert told == [("n:1", "g", "me", {QueueId("orders", "broker-a", 0): 7})] * 2
    assert "progress not stored: group=g" in caplog.text


def test_a_query_leaves_a_report_until_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_PIPELINES_FOLDER", str(tmp_path / "reports"))

    class Brokers:
        def __init__(self, options: SourceOptions) -> None:
            pass

        def commit(self, offsets: Any) -> None:
            pass

    ear = _Ear(ProgressListener(None, Brokers))  # type: ignore[arg-type]
    text = json.dumps({"id": "q-1", "batchId": 3, "numInputRows": 5, "sources": [vars(OURS)]})
    ear.onQueryProgress(SimpleNamespace(progress=lambda: SimpleNamespace(json=lambda: text)))
    (report,) = read_reports(tmp_path / "reports")
    assert (report.batch, report.rows, report.ended_ms) == (3, 5, 0)
    queues = (SourceQueue("orders", "broker-a", 0, 7, 2),)
    assert report.sources == (SourceReport(group="g", nameserver="n:1", topics=("orders",), lag=2, queues=queues),)
    failure = SimpleNamespace(isDefined=lambda: True, get=lambda: "the handler failed")
    ear.onQueryTerminated(
        SimpleNamespace(id=lambda: SimpleNamespace(toString=lambda: "q-1"), exception=lambda: failure)
    )
    (report,) = read_reports(tmp_path / "reports")
    assert report.ended_ms > 0 and report.error == "the handler failed"
