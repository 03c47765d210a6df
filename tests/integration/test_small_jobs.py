"""Small jobs of the pipeline without Spark: they need no Java, not even PySpark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pyromq import Admin, Message, Producer
from pyromq.errors import ConfigError
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic
from pyromq.operate.resend.outgoing import Outgoing
from pyromq.pipeline.jobs import Selection, redrive, replay, report
from pyromq.pipeline.jobs.common import plain_rows
from pyromq.pipeline.jobs.common.errors import TooLargeForMemoryError
from pyromq.pipeline.jobs.resending.outgoing import source_of
from pyromq.pipeline.jobs.resending.sending import PacedSender
from pyromq.pipeline.tables.errors import SqlError
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration

_WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None  # as if it were not installed
from pyromq.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


class Shop:
    def __init__(self, nameserver: str, producer: Producer, admin: Admin) -> None:
        self.nameserver, self.producer, self.admin = nameserver, producer, admin

    def bury(self, count: int) -> None:
        """Dead letters of group billing, from topic orders."""
        self.admin.groups.create("billing")
        self.admin.topics.create(dead_letter_topic("billing"), queues=2)
        row = {"message_id": "M", "offset_message_id": "O", "keys": "", "tags": ""}
        letters = [
            Outgoing(
                source=source_of(row), topic=dead_letter_topic("billing"), message_id=f"{number}", body=b"x",
                is_checked=False,
                properties=(
                    (names.UNIQUE_KEY, f"{number}"), (names.KEYS, f"key-{number}"), (names.RETRY_TOPIC, "orders"),
                    (names.DLQ_ERROR, "timeout" if number % 2 else "broken"),
                ),
            )
            for number in range(count)
        ]  # fmt: skip
        assert all(each.status == "sent" for each in PacedSender(self.nameserver, {}).send_all(letters))

    def command(self, *arguments: str, code: int = 0) -> Any:
        """What the command wrote as JSON, in a process that has no PySpark."""
        given = [*arguments, "-n", self.nameserver, "-o", "json"]
        ended = subprocess.run(
            [sys.executable, "-c", _WITHOUT_SPARK, "pipeline", *given], capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == code, ended.stderr
        return json.loads(ended.stdout) if ended.stdout else ended.stderr


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with (
        LoopbackBroker() as broker,
        Producer(broker.nameserver, group="shop") as producer,
        Admin(broker.nameserver) as admin,
    ):
        for number in range(40):
            producer.send(Message("orders", b"%d" % number, keys=f"k{number % 30}", tags="paid" if number % 4 else ""))
        producer.send(Message("again", b"the first one makes the topic"))
        made = Shop(broker.nameserver, producer, admin)
        made.bury(40)
        yield made


def test_a_report_needs_no_spark(shop: Shop) -> None:
    found = shop.command("report", "orders", "-g", "billing")
    assert [(each["topic"], each["messages"]) for each in found["throughput"]] == [("orders", 40)]
    assert found["duplicate_keys"] == 10 and {each["cause"]: each["count"] for each in found["dead"]} == {
        "broken": 20, "timeout": 20,
    }  # fmt: skip
    by_function = report(None, ["orders"], nameserver=shop.nameserver, groups=["billing"])
    assert by_function.duplicate_keys == 10 and not by_function.has_trace


def test_a_redrive_needs_no_spark_and_sends_each_letter_once(shop: Shop) -> None:
    dry = shop.command("redrive", "billing", "--error", "timeout", "--dry-run")
    assert [each["status"] for each in dry] == ["would send"] * 20
    where = ("--engine", "python", "--where", "properties['DLQ_ERROR'] = 'broken' AND keys <> 'key-0'")
    assert len(shop.command("redrive", "billing", *where, "--dry-run")) == 19

    sent = shop.command("redrive", "billing", "--yes")
    again = redrive(None, "billing", nameserver=shop.nameserver, dry_run=False)

    assert {each["status"] for each in sent} == {"sent"} and len(sent) == 40
    assert (again.sent, again.sent_before, again.found) == (0, 40, 40)


def test_a_replay_needs_no_spark(shop: Shop) -> None:
    done = shop.command("replay", "orders", "--to", "again", "--tags", "paid", "--max", "5", "--name", "once", "--yes")
    assert (done["found"], done["sent"]) == (5, 5)
    wanted = Selection(topics=("orders",), nameserver=shop.nameserver, tags="paid", where="keys in ('k1', 'k2')")
    dry = replay(None, wanted, "again")
    assert dry.found == 3 and {sample.keys for sample in dry.samples} == {"k1", "k2"}


def test_a_condition_is_a_condition(shop: Shop) -> None:
    for where in ("true) FROM orders, (select 1", "1 = (select count(*) from again)"):
        with pytest.raises(SqlError):
            replay(None, Selection(topics=("orders",), nameserver=shop.nameserver, where=where), "again")


def test_what_does_not_fit_into_memory_is_left_to_spark(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shop.command("redrive", "billing", "--engine", "spark", "--dry-run", code=1)
    assert "pyspark" in text.lower()
    monkeypatch.setattr(plain_rows, "BYTES_MAX", 100)
    with pytest.raises(TooLargeForMemoryError, match="--engine spark"):
        redrive(None, "billing", nameserver=shop.nameserver)
    with pytest.raises(ConfigError, match="store folders"):
        report(None, ["orders"], options={"storePath": "/somewhere"})
