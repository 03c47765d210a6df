"""What a broker tells about its store, and about producers it asked: requests that only ours answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pyromq import Admin, Message, Producer, ReceivedMessage, TransactionOutcome, TransactionProducer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES, SMALL_FILES_IN_MEMORY

pytestmark = pytest.mark.integration

TINY_FILES = replace(SMALL_FILES, segment_bytes=64 << 10)


def test_segments_disk_and_recovery_are_told(tmp_path: Path) -> None:
    settings = BrokerSettings(store=TINY_FILES)
    with LoopbackBroker(settings, folder=tmp_path) as broker, Producer(broker.nameserver, group="shop") as producer:
        for _ in range(10):
            producer.send(Message("orders", Random(1).randbytes(20_000)))  # which no compression makes small
    with LoopbackBroker(settings, folder=tmp_path) as broker, Admin(broker.nameserver) as admin:
        facts = admin.stores.facts("broker-a")
    assert facts is not None
    assert facts.folder == str(tmp_path) and facts.flush == "sync" and facts.writable and not facts.problem
    assert facts.segment_count == len(facts.segments) >= 4 and facts.segments[0].name == "0" * 20
    assert [each.base for each in facts.segments] == [number * (64 << 10) for number in range(facts.segment_count)]
    assert all(each.first_stored_ms > 0 for each in facts.segments if each.base < facts.end_position)
    assert facts.segments[-1].expires_ms == 0
    assert facts.segments[0].expires_ms == facts.segments[0].modified_ms + facts.keep_ms
    assert facts.end_position == facts.flushed_position > 200_000 and facts.first_position == 0
    assert 0 < facts.disk_free_bytes < facts.disk_total_bytes
    assert facts.disk_used_bytes is not None
    assert 0 < facts.disk_used_bytes + facts.disk_free_bytes <= facts.disk_total_bytes
    assert facts.recovery.clean and facts.recovery.sealed and not facts.recovery.cuts and not facts.recovery.rebuilt


def test_a_new_store_has_facts_too(tmp_path: Path) -> None:
    with LoopbackBroker(BrokerSettings(store=TINY_FILES), folder=tmp_path) as broker:
        with Admin(broker.nameserver) as admin:
            facts = admin.stores.facts(broker.address)
    assert facts is not None and facts.end_position == 0 and facts.unread_deleted == 0


def test_what_recovery_cut_is_told(tmp_path: Path) -> None:
    settings = BrokerSettings(store=TINY_FILES)
    with LoopbackBroker(settings, folder=tmp_path) as broker, Producer(broker.nameserver, group="shop") as producer:
        producer.send(Message("orders", b"whole"))
    log = tmp_path / "commitlog" / ("0" * 20)
    with log.open("r+b") as file:
        end = len(log.read_bytes().rstrip(b"\0"))
        file.seek(end + 3 - end % 4 + 200)
        file.write(b"torn")
    (tmp_path / "abort").write_bytes(b"1")
    with LoopbackBroker(settings, folder=tmp_path) as broker, Admin(broker.nameserver) as admin:
        facts = admin.stores.facts("broker-a")
    assert facts is not None and not facts.recovery.clean
    (cut,) = facts.recovery.cuts
    assert cut.size > 0 and Path(cut.copy).is_file() and cut.reason


def test_questions_about_a_prepared_message_are_counted() -> None:
    def undecided(message: ReceivedMessage) -> TransactionOutcome:
        return TransactionOutcome.UNKNOWN

    impatient = BrokerSettings(
        store=SMALL_FILES_IN_MEMORY, transaction_timeout_ms=1_000, transaction_check_interval_ms=1_000
    )
    with (
        LoopbackBroker(impatient, virtual_time=True) as broker,
        TransactionProducer(broker.nameserver, group="shop", topics="orders", check=undecided) as producer,
        Admin(broker.nameserver) as admin,
    ):
        producer.send(Message("orders", b"maybe"), lambda transaction: None)
        before = admin.transactions.list()
        broker.advance(seconds=10)
        after = admin.transactions.list()
    assert [each.checks for each in before] == [0]
    assert len(after) == 1 and after[0].checks >= 3 and after[0].producer_group == "shop"
