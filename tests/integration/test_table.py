"""A topic as a Delta or Iceberg table: no message is lost and none is there twice, wherever the writer is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message, Producer, sql
from pyromq.cli.main import main
from pyromq.errors import ConfigError, TopicNotFoundError
from pyromq.pipeline import fill_table, table_versions, where_is
from pyromq.pipeline.tables import filling
from pyromq.pipeline.tables.delta import MessageTable
from pyromq.pipeline.tables.errors import TableWriteError
from pyromq.pipeline.tables.iceberg import IcebergTable
from pyromq.testing import LoopbackBroker
from tests.integration import table_worker

pytestmark = pytest.mark.integration


class Shop:
    def __init__(self, nameserver: str, producer: Producer, folder: Path) -> None:
        self.nameserver, self.producer, self.folder = nameserver, producer, folder
        self.sent: list[str] = []
        self.form = "delta"

    def send(self, count: int, topic: str = "orders") -> None:
        receipts = [self.producer.send(Message(topic, bytes(1_000), keys=str(number))) for number in range(count)]
        self.sent += [receipt.message_id for receipt in receipts]

    def ids(self) -> list[str]:
        return [row["message_id"] for row in sql("select message_id from t", tables={"t": self.folder})]

    def fill(self, **more: Any) -> int:
        return fill_table("orders", self.folder, self.nameserver, **{"form": self.form, **more}).messages


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with LoopbackBroker() as broker, Producer(broker.nameserver, group="shop") as producer:
        yield Shop(broker.nameserver, producer, tmp_path / "table")


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_every_message_is_there_once_wherever_the_writer_is_killed(shop: Shop, form: str) -> None:
    shop.form = form
    for step in ("read", "written", "committed"):
        shop.send(50)
        killed = run_worker(shop, step, 2)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    shop.send(10)
    ended = run_worker(shop, "never", 1)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) < 160, "what was committed before the kills is not written again"
    assert sorted(shop.ids()) == sorted(shop.sent)
    named = {Path(uri).name for uri in files_of(shop.folder)}
    assert {path.name for path in shop.folder.rglob("*.parquet")} - named, "a kill before a commit left a file"


def run_worker(shop: Shop, step: str, count: int) -> subprocess.CompletedProcess[str]:
    words = [shop.nameserver, str(shop.folder), step, str(count), shop.form]
    command = [sys.executable, "-m", table_worker.__name__, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def files_of(folder: Path) -> list[str]:
    from deltalake import DeltaTable

    if (folder / "catalog.db").exists():
        return IcebergTable(folder).files()

    return DeltaTable(folder).file_uris()


@pytest.mark.parametrize(("form", "step"), [("delta", "read"), ("delta", "written"), ("iceberg", "written")])
def test_two_writers_of_a_topic_write_each_message_once(
    shop: Shop, form: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.form = form
    shop.send(20)
    others: list[int] = []

    def between(now: str) -> None:
        if now == step and not others:
            others.append(0)
            others[0] = shop.fill()

    shop.send(5)
    monkeypatch.setattr(filling, "MessageTable", partial(MessageTable, on_step=between))
    monkeypatch.setattr(filling, "IcebergTable", partial(IcebergTable, on_step=between))
    own = shop.fill()
    assert (own, others) == (0, [25])
    shop.send(1)
    assert shop.fill() == 1
    assert sorted(shop.ids()) == sorted(shop.sent)


def test_offsets_outlive_checkpoints_merging_and_expiry(shop: Shop) -> None:
    from deltalake import DeltaTable

    for _ in range(3):
        shop.send(4)
        shop.fill()
    done = fill_table("orders", shop.folder, shop.nameserver, compact=True)
    assert (done.messages, done.merged_files, len(files_of(shop.folder))) == (0, 3, 1)
    DeltaTable(shop.folder).create_checkpoint()
    for path in sorted((shop.folder / "_delta_log").glob("*.json"))[:-1]:
        path.unlink()  # as Delta does with old ones
    assert shop.fill() == 0 and sorted(shop.ids()) == sorted(shop.sent)
    table = MessageTable(shop.folder)
    assert table.expire(1, datetime.now(UTC)) == 0
    table.reload()
    assert table.expire(1, datetime.now(UTC) + timedelta(days=2)) == 12
    assert shop.fill() == 0 and shop.ids() == []
    shop.send(1)
    assert shop.fill() == 1 and shop.ids() == shop.sent[-1:]


def test_a_message_leads_to_its_version_and_back(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.send(8)
    shop.fill()
    shop.send(1)
    shop.fill()
    before = [where_is(shop.folder, each) for each in shop.sent]
    shop.fill(compact=True)
    assert [where_is(shop.folder, each) for each in shop.sent] == before and all(map(len, before))
    (found,) = where_is(shop.folder, shop.sent[-1])
    newest, first = table_versions(shop.folder)
    assert found["version"] == newest.version == first.version + 1
    assert [(part.queue.number, part.start) for part in newest.ranges] == [(found["queue_id"], found["queue_offset"])]
    assert sum(map(len, first.ranges)) == 8
    words = ["pipeline", "table", "orders", "--to", str(shop.folder), "-n", shop.nameserver]
    assert main([*words, "--where-is", shop.sent[0]]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == first.version
    assert main([*words, "--where-is", "nosuch"]) == 2
    assert main([*words, "--history", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["end"] - row["start"] for row in rows) == 9 and rows[0]["version"] == newest.version


def test_the_command_fills_a_table_and_goes_on(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.send(3)
    shop.send(2, "returns")
    words = ["pipeline", "table", "orders", "returns", "--to", str(shop.folder), "-n", shop.nameserver]
    for expected in (5, 0):
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["messages"] == expected
    topics = sql("select topic, count(*) as n from t group by topic order by topic", tables={"t": shop.folder})
    assert list(topics) == [{"topic": "orders", "n": 3}, {"topic": "returns", "n": 2}]


def test_a_run_that_follows_brings_what_comes_until_it_is_interrupted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            raise KeyboardInterrupt
        shop.send(2)

    monkeypatch.setattr(filling, "sleep", nap)
    shop.send(3)
    done = fill_table("orders", shop.folder, shop.nameserver, follow_s=5)
    assert (done.messages, done.commits, naps) == (7, 3, [5, 5, 5])
    assert sorted(shop.ids()) == sorted(shop.sent)


def test_no_reader_passes_over_a_file_that_holds_what_it_looks_for(shop: Shop) -> None:
    long = "k" * 40
    for number, tags in enumerate(("a", "", "b")):
        shop.producer.send(Message("orders", b"x", tags=tags, keys=f"{long}{number}"))
    shop.fill()
    for row in sql("from t", tables={"t": shop.folder}):
        for name in sorted(row.keys() - {"properties", "body"}):
            value = str(row[name]).replace("'", "''")
            is_equal = f"{name} = '{value}'" if row[name] is not None else f"{name} is null"
            text = f"select count(*) as n from t where {is_equal} and message_id = '{row['message_id']}'"
            assert list(sql(text, tables={"t": shop.folder})) == [{"n": 1}], text


def test_what_cannot_be_a_table_is_refused(shop: Shop, tmp_path: Path) -> None:
    shop.send(1)
    with pytest.raises(TopicNotFoundError):
        fill_table("nosuch", shop.folder, shop.nameserver)
    assert not shop.folder.exists()
    with pytest.raises(ConfigError, match="leave out options of places and filters"):
        shop.fill(options={"tags": "a"})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ConfigError, match="neither empty nor the folder of a table of Delta"):
        fill_table("orders", tmp_path / "full", shop.nameserver)
    below_a_file = tmp_path / "full" / "file" / "table"
    with pytest.raises(ConfigError, match=r"there can be no Delta table in .*: Not a directory"):
        fill_table("orders", below_a_file, shop.nameserver)
    with pytest.raises(ConfigError, match=r"there can be no Iceberg table in .*: Not a directory"):
        fill_table("orders", below_a_file, shop.nameserver, form="iceberg")
    with pytest.raises(ConfigError, match="there is no Delta or Iceberg table"):
        where_is(tmp_path / "full", "x")
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "other", pa.table({"n": [1]}))
    with pytest.raises(ConfigError, match="has other columns than messages have: n"):
        fill_table("orders", tmp_path / "other", shop.nameserver)


def test_a_commit_that_nobody_was_faster_with_is_an_error_and_no_conflict(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, say: trying a hundred times would read every message a hundred times."""
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    shop.send(3)
    shop.fill()
    shop.send(3)

    def fail(*_: Any, **__: Any) -> None:
        raise CommitFailedError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", fail)
        with pytest.raises(TableWriteError, match="no space left"):
            shop.fill()
    assert shop.fill() == 3 and sorted(shop.ids()) == sorted(shop.sent)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_that_follows_expires_messages_though_none_come(
    shop: Shop, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.form = form
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            raise KeyboardInterrupt
        monkeypatch.setattr(filling, "datetime", Tomorrow)

    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(days=3)

    monkeypatch.setattr(filling, "TIDY_EVERY_S", 0.0)
    monkeypatch.setattr(filling, "sleep", nap)
    shop.send(5)
    done = fill_table("orders", shop.folder, shop.nameserver, form=form, follow_s=1, expire_days=1)
    assert (done.messages, done.expired, shop.ids()) == (5, 5, [])
    monkeypatch.undo()
    assert shop.fill() == 0, "offsets outlive expiry"


def test_an_iceberg_table_is_asked_like_a_delta_table(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.form = "iceberg"
    shop.send(8)
    words = ["pipeline", "table", "orders", "--to", str(shop.folder), "-n", shop.nameserver]
    assert main([*words, "--format", "iceberg"]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 8
    shop.send(1)
    assert shop.fill() == 1
    (found,) = where_is(shop.folder, shop.sent[-1])
    newest, first = table_versions(shop.folder)
    assert found["version"] == newest.version > first.version and sum(map(len, first.ranges)) == 8
    assert list(sql("select count(*) as n from t where queue_offset >= 0", tables={"t": shop.folder})) == [{"n": 9}]
    with pytest.raises(ConfigError, match="compact is for Delta"):
        shop.fill(compact=True)
    with pytest.raises(ConfigError, match="not one of delta, iceberg"):
        shop.fill(form="hudi")
