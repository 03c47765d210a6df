"""The audit log: entries come back newest first, files rotate, floods of refusals are counted, crashes cost a line."""

from __future__ import annotations

import stat
from itertools import count
from pathlib import Path
from random import Random

import pytest

from pyromq.errors import ConfigError
from pyromq.security.audit import (
    MANY,
    REPEATS_MAX,
    REPEATS_OF_ADDRESS_MAX,
    AuditEntry,
    AuditLog,
    AuditOutcome,
    AuditSearch,
    AuditSettings,
    find_entries,
)
from pyromq.security.audited import AUDITED_BY_BROKERS, AUDITED_BY_NAMESERVERS, ROUTINE
from pyromq.security.resources import Action
from pyromq.security.rights import BROKER_RIGHTS, NAMESERVER_RIGHTS
from pyromq.testing import Crashed, CrashMode, FaultyDisk, ManualClock
from pyromq.wire.codes import RequestCode as Code

ROOT = Path("/data/audit")
LARGE = {"Topic:orders": (None, "x" * 20_000)}


def entry(clock: ManualClock, topic: str, **more: object) -> AuditEntry:
    values = {
        "outcome": AuditOutcome.DONE,
        "user": "ops",
        "address": "10.0.0.7",
        "action": "UPDATE_AND_CREATE_TOPIC",
        **more,
    }
    return AuditEntry(
        time_ms=clock.now_ms(),
        server="broker-a",
        resources=(f"Topic:{topic}",),
        **values,  # type: ignore[arg-type]
    )


def _full(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


class Bench:
    def __init__(self, folder: Path, **settings: int) -> None:
        self.clock = ManualClock(1_000_000)
        self.folder = folder / "audit"
        self.log = AuditLog(self.folder, "broker-a", AuditSettings(**settings), self.clock.now_ms)  # type: ignore[arg-type]

    def entry(self, topic: str = "orders", **more: object) -> AuditEntry:
        return entry(self.clock, topic, **more)

    def refuse(self, reason: str = "no") -> None:
        self.log.refused(self.entry(outcome=AuditOutcome.REFUSED, reason=reason))

    def topics(self, **wanted: object) -> list[str]:
        found = self.log.find(AuditSearch(**wanted))  # type: ignore[arg-type]
        return [entry.resources[0].removeprefix("Topic:") for entry in found]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_entries_come_back_newest_first_and_whole(bench: Bench) -> None:
    bench.log.record(bench.entry("orders", changes={"Topic:orders": (None, {"queues": 8})}))
    bench.clock.advance_ms(1_000)
    bench.log.record(bench.entry("größe"))
    second, first = bench.log.find(AuditSearch())
    assert second.resources == ("Topic:größe",)
    assert first.changes == {"Topic:orders": (None, {"queues": 8})} and first.user == "ops"


def test_questions_choose(bench: Bench) -> None:
    for number in range(5):
        user = "ops" if number % 2 else "dev"
        bench.log.record(bench.entry(f"t{number}", user=user))
        bench.clock.advance_ms(10)
    assert bench.topics(limit=2) == ["t4", "t3"]
    assert bench.topics(user="ops") == ["t3", "t1"]
    assert bench.topics(since_ms=1_000_020, until_ms=1_000_030) == ["t3", "t2"]
    assert bench.topics(resource="t2") == ["t2"]
    assert bench.topics(outcome="refused") == []


def test_files_rotate_and_the_oldest_goes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, file_bytes_max=1 << 16, files_max=3)
    for number in range(30):
        bench.log.record(bench.entry(f"t{number}", changes=LARGE))
        bench.log.flush()
    assert sorted(path.name[-8:] for path in bench.folder.iterdir()) == ["08.jsonl", "09.jsonl", "10.jsonl"]
    assert bench.topics(limit=100) == [f"t{number}" for number in range(29, 20, -1)]
    assert all(path.stat().st_size <= 1 << 16 for path in bench.folder.iterdir())


def test_a_flood_of_refusals_is_two_entries_a_minute(bench: Bench) -> None:
    for _ in range(1_000):
        bench.refuse()
    assert [entry.times for entry in bench.log.find(AuditSearch())] == [1]
    bench.clock.advance_ms(60_000)
    bench.log.tick()
    assert [entry.times for entry in bench.log.find(AuditSearch())] == [999, 1]
    bench.refuse()
    assert [entry.times for entry in bench.log.find(AuditSearch())] == [1, 999, 1]


def test_many_different_refusals_are_bounded_and_none_is_missing(bench: Bench) -> None:
    for number in range(1_500):
        bench.refuse(f"reason {number}")
        bench.refuse(f"reason {number}")
    bench.log.close()
    found = bench.log.find(AuditSearch(limit=10_000))
    assert sum(entry.times for entry in found) == 3_000
    assert len(found) <= 2 * REPEATS_OF_ADDRESS_MAX + 2, "a flood of names does not wash the log out"
    assert found[0].reason == MANY


def test_refusals_of_many_addresses_share_an_entry_when_there_are_too_many(bench: Bench) -> None:
    for number in range(3_000):
        bench.log.refused(bench.entry(outcome=AuditOutcome.REFUSED, reason="no", address=f"2001:db8::{number:x}"))
    bench.clock.advance_ms(60_000)
    bench.log.tick()
    found = bench.log.find(AuditSearch(limit=10_000))
    assert len(found) == REPEATS_MAX + 2 and sum(entry.times for entry in found) == 3_000
    bench.refuse("later")
    assert bench.log.find(AuditSearch(limit=1))[0].reason == "later"


def test_texts_beyond_every_measure_are_cut_in_files_and_in_memory(tmp_path: Path) -> None:
    bench = Bench(tmp_path, file_bytes_max=1 << 16, files_max=3)
    for number in range(300):
        name = f"{number:07}" + "é\x00" * 250_000
        bench.log.refused(bench.entry(name, outcome=AuditOutcome.REFUSED, reason=name, user=name, action=f"A{number}"))
        if number % 50 == 49:
            bench.log.flush()
    bench.log.close()
    sizes = [path.stat().st_size for path in bench.folder.iterdir()]
    assert len(sizes) <= 3 and max(sizes) <= 1 << 16
    newest = bench.log.find(AuditSearch(limit=1))[0]
    assert len(newest.user) < 400 and len(newest.reason) < 600


def test_entries_of_one_flush_that_fill_several_files_keep_the_limits(tmp_path: Path) -> None:
    bench = Bench(tmp_path, file_bytes_max=1 << 16, files_max=3)
    for number in range(30):
        bench.log.record(bench.entry(f"t{number}", changes=LARGE))
    bench.log.flush()
    assert [path.stat().st_size <= 1 << 16 for path in bench.folder.iterdir()] == [True] * 3
    assert bench.topics(limit=100) == [f"t{number}" for number in range(29, 20, -1)]


def test_what_was_written_survives_a_crash_at_every_operation() -> None:
    for stop_at in count(1):
        clock, disk = ManualClock(1_000_000), FaultyDisk()
        log = AuditLog(ROOT, "broker-a", AuditSettings(file_bytes_max=1 << 16, files_max=2), clock.now_ms, disk=disk)
        written = 0
        disk.crash_at(stop_at)
        try:
            for number in range(12):
                log.record(entry(clock, f"t{number}", changes=LARGE))
                log.flush()
                written = number + 1
        except Crashed:
            pass
        else:
            return
        after = disk.after_crash(CrashMode.FORGET, Random(stop_at))
        again = AuditLog(ROOT, "broker-a", AuditSettings(), clock.now_ms, disk=after)
        found = [int(entry.resources[0].removeprefix("Topic:t")) for entry in again.find(AuditSearch())]
        assert found == sorted(found, reverse=True)
        assert not written or found[0] >= written - 1, "the newest that was written"


def test_a_line_that_a_crash_has_cut_is_passed_over(bench: Bench) -> None:
    bench.log.record(bench.entry("whole"))
    bench.log.flush()
    (path,) = bench.folder.iterdir()
    path.write_bytes(path.read_bytes() + b'{"time_ms":17,"ser')
    assert [entry.resources for entry in find_entries(bench.folder, AuditSearch())] == [("Topic:whole",)]


def test_what_could_not_be_written_is_kept_for_the_next_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.log.record(bench.entry("kept"))
    with monkeypatch.context() as patched:
        patched.setattr("pyromq.whole_text.os.fsync", _full)
        bench.log.flush()
    assert "audit log not written" in caplog.text and bench.log.has_news
    assert bench.topics() == ["kept"]


def test_more_than_can_wait_is_counted_and_told(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(1_000):
        bench.log.record(bench.entry(changes=LARGE))
    bench.log.flush()
    kept = len(bench.log.find(AuditSearch(limit=10_000)))
    assert kept < 500 and f"{1_000 - kept} entries lost" in caplog.text
    bench.log.record(bench.entry("next"))
    assert bench.topics(limit=1) == ["next"], "there is room again"


def test_files_are_for_their_owner_alone(bench: Bench) -> None:
    bench.log.record(bench.entry())
    bench.log.flush()
    assert stat.S_IMODE(bench.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in bench.folder.iterdir()} == {0o600}


def test_an_entry_beyond_every_measure_loses_its_details_and_stays_an_entry(bench: Bench) -> None:
    bench.log.record(bench.entry(changes={"Topic:orders": (None, "x" * 1_000_000)}))
    (entry,) = bench.log.find(AuditSearch())
    assert entry.changes == {} and entry.resources == ("Topic:orders",)


def test_switched_off_it_writes_nothing(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit", "b", AuditSettings(enabled=False), ManualClock().now_ms)
    log.record(Bench(tmp_path).entry())
    log.close()
    assert not (tmp_path / "audit").exists()


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="file_bytes_max"):
        AuditSettings(file_bytes_max=10)


@pytest.mark.parametrize(
    ("rights", "audited"), [(BROKER_RIGHTS, AUDITED_BY_BROKERS), (NAMESERVER_RIGHTS, AUDITED_BY_NAMESERVERS)]
)
def test_every_request_that_may_change_something_is_audited_or_named_as_routine(
    rights: dict[int, object], audited: frozenset[int]
) -> None:
    for code, right in rights.items():
        actions = {action for clause in right.clauses for action in clause.actions}  # type: ignore[attr-defined]
        if actions & {Action.CREATE, Action.UPDATE, Action.DELETE}:
            assert code in audited or code in ROUTINE, Code(code).name
