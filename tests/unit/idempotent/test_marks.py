"""Marks and claims: whose turn it is to consume a message, over threads and restarts."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from pyromq.errors import ConfigError
from pyromq.idempotent import InProgressError, Marks, message_key
from pyromq.idempotent.keys import key_hash
from pyromq.idempotent.leases import Claim, Leases, _begin_anew
from pyromq.testing import ManualClock
from tests.unit.received import received

KINDS: dict[str, Callable[[Path], Any]] = {
    "sqlite3": str,
    "sqlalchemy": lambda path: sqlalchemy.create_engine(f"sqlite:///{path}"),
}


class Bench:
    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.clock, self._kind = path, ManualClock(), kind
        self.marks = self.another()

    def another(self, scope: str = "billing") -> Marks:
        """Those of another process, as far as the table can tell."""
        database = KINDS[self._kind](self.path)
        return Marks(database, scope=scope, lease_ms=60_000, keep_ms=1_000_000, clock=self.clock)


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "marks.db", request.param)
    yield bench
    bench.marks.close()


def claimed(marks: Marks, key: str) -> Claim:
    claim = marks.claim(key)
    assert claim is not None
    return claim


# --- keys ---


def test_the_key_is_topic_tag_and_keys_or_else_the_producers_id() -> None:
    assert message_key(received(unique_id="U")) == "U"
    same = [message_key(received(unique_id=name, keys="order-42", tags="paid")) for name in "UV"]
    assert same[0] == same[1]
    others = [received(keys="order-43", tags="paid"), received(keys="order-42"), received(topic="x", keys="order-42")]
    assert len({same[0], *map(message_key, others)}) == 4


def test_hashes_differ_wherever_scope_or_key_differ() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("A", "bc"), ("a", "Bc"), ("a", "bc "), ("a", "b" * 10_000), ("a", "\ud800")]
    assert len({key_hash(*pair) for pair in pairs}) == len(pairs)


# --- claims ---


def test_a_message_is_claimed_consumed_and_never_again(bench: Bench) -> None:
    claim = claimed(bench.marks, "k")
    bench.marks.finish(claim)
    assert bench.marks.claim("k") is None
    assert bench.another().claim("k") is None
    assert bench.another("audit").claim("k") is not None  # another group consumes it too


def test_what_is_in_progress_is_neither_consumed_nor_free(bench: Bench) -> None:
    claimed(bench.marks, "k")
    for marks in (bench.marks, bench.another()):
        with pytest.raises(InProgressError, match="being consumed elsewhere"):
            marks.claim("k")


def test_a_claim_that_was_released_is_free(bench: Bench) -> None:
    bench.marks.release(claimed(bench.marks, "k"))
    claimed(bench.another(), "k")


def test_the_claim_of_one_who_died_runs_out(bench: Bench) -> None:
    claimed(bench.marks, "k")
    bench.clock.advance_ms(59_999)
    with pytest.raises(InProgressError):
        bench.another().claim("k")
    bench.clock.advance_ms(1)
    heir = bench.another()
    claim = claimed(heir, "k")
    with pytest.raises(InProgressError):  # the lease is a new one
        bench.another().claim("k")
    heir.finish(claim)
    assert bench.marks.claim("k") is None


def test_a_claim_that_is_renewed_does_not_run_out(bench: Bench) -> None:
    claim = claimed(bench.marks, "k")
    for _ in range(5):
        bench.clock.advance_ms(59_000)
        bench.marks.renew()
    with pytest.raises(InProgressError):
        bench.another().claim("k")
    bench.marks.finish(claim)
    bench.clock.advance_ms(59_000)
    bench.marks.renew()  # of nothing
    assert bench.marks.claim("k") is None


def test_one_whose_lease_ran_out_neither_marks_nor_frees_what_another_has_now(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    slow = claimed(bench.marks, "k")
    bench.clock.advance_ms(60_000)
    heir = bench.another()
    claim = claimed(heir, "k")
    bench.marks.release(slow)
    with pytest.raises(InProgressError):
        bench.marks.claim("k")
    bench.marks.finish(slow)
    assert "lease ran out" in caplog.text
    with pytest.raises(InProgressError):
        bench.marks.claim("k")
    heir.finish(claim)


def test_of_many_who_want_it_one_gets_it(bench: Bench) -> None:
    won: Counter[str] = Counter()
    several = [bench.marks, bench.another(), bench.another()]

    def work(marks: Marks) -> None:
        for number in range(15):
            try:
                if (claim := marks.claim(f"k{number}")) is not None:
                    won[claim.key] += 1
                    marks.finish(claim)
            except InProgressError:
                pass

    threads = [threading.Thread(target=work, args=(marks,)) for marks in several * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == {f"k{number}": 1 for number in range(15)}


def test_old_marks_go_and_claims_of_the_living_stay(bench: Bench) -> None:
    bench.marks.finish(claimed(bench.marks, "old"))
    claimed(bench.marks, "died")
    bench.clock.advance_ms(500_000)
    bench.marks.finish(claimed(bench.marks, "young"))
    bench.clock.advance_ms(500_001)
    assert bench.marks.prune() == 1
    assert bench.marks.claim("young") is None
    claimed(bench.marks, "old")
    bench.clock.advance_ms(70_000)
    assert bench.another().prune() == 1  # of the one who died


def test_marks_are_pruned_every_hour_that_they_are_used(bench: Bench) -> None:
    bench.marks.finish(claimed(bench.marks, "old"))
    bench.clock.advance_ms(3_600_001)
    claimed(bench.marks, "new")
    assert bench.marks.prune() == 0
    claimed(bench.marks, "old")


def test_several_are_claimed_together_or_not_at_all(bench: Bench) -> None:
    bench.marks.finish(claimed(bench.marks, "done"))
    claims = bench.marks.claim_all(["b", "done", "a"])
    assert [claim.key if claim else None for claim in claims] == ["b", None, "a"]
    with pytest.raises(InProgressError):
        bench.another().claim_all(["0", "a"])
    bench.marks.release(*[claim for claim in claims if claim])
    assert all(bench.another().claim_all(["0", "a", "b"]))


# --- within a transaction ---


def test_a_mark_is_there_with_the_effect_or_not_at_all(bench: Bench) -> None:
    with pytest.raises(ValueError, match="mine"), bench.marks.database.begin() as connection:
        assert bench.marks.first_time(connection, "k")
        raise ValueError("mine")
    for expected in (True, False, False):
        with bench.marks.database.begin() as connection:
            assert bench.marks.first_time(connection, "k") is expected
    assert bench.marks.claim("k") is None


def test_transactions_of_the_application_are_used(bench: Bench) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{bench.path}")
    message = received(keys="k")
    with Session(engine) as session:
        assert bench.marks.first_time(session, message)
    with Session(engine) as session:
        assert bench.marks.first_time(session, message)
        session.commit()
    with sqlite3.connect(bench.path) as plain:
        assert not bench.marks.first_time(plain, message)
    plain.close()
    engine.dispose()


def test_nothing_is_pruned_while_a_transaction_holds_the_table(bench: Bench) -> None:
    bench.clock.advance_ms(3_600_001)
    with bench.marks.database.begin() as connection:
        assert bench.marks.first_time(connection, "k")


def test_a_transaction_respects_claims_of_the_living_and_inherits_from_the_dead(bench: Bench) -> None:
    claimed(bench.marks, "k")
    with pytest.raises(InProgressError), bench.another().database.begin() as connection:
        bench.marks.first_time(connection, "k")
    bench.clock.advance_ms(60_000)
    with bench.marks.database.begin() as connection:
        assert bench.marks.first_time(connection, "k")
    assert bench.marks.claim("k") is None


@pytest.mark.parametrize(
    "given", [{"lease_ms": 0}, {"keep_ms": 0}, {"scope": ""}, {"scope": "x" * 256}, {"table": "a b"}]
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Marks(tmp_path / "t.db", **{"scope": "g", **given})


# --- leases ---


def test_a_thread_prolongs_claims_while_there_are_any() -> None:
    renewed, enough = list[list[Claim]](), threading.Event()

    def renew(claims: list[Claim]) -> None:
        renewed.append(claims)
        if len(renewed) == 1:
            raise ConnectionError("the database is away for a moment")
        if len(renewed) == 3:
            enough.set()

    leases = Leases(renew, lease_ms=30)
    claim = Claim("hash", "token", "key")
    leases.hold(claim)
    assert enough.wait(60)
    leases.let_go(claim)
    before = leases._thread
    assert before is not None
    before.join(60)  # it ends when there is nothing left to do
    assert not before.is_alive()
    enough.clear()
    renewed.clear()
    leases.hold(claim)  # and another begins
    assert enough.wait(60)
    leases.let_go(claim)
    assert all(claims == [claim] for claims in renewed)


def test_a_forked_child_does_not_prolong_the_claims_of_its_parent() -> None:
    renewed: list[list[Claim]] = []
    leases = Leases(renewed.append, lease_ms=60_000)
    leases.hold(Claim("parent", "token", "key"))
    leases._lock.acquire()  # a thread of the parent holds it at that moment, and there are no threads in a child
    _begin_anew()
    leases.renew_now()
    assert renewed == []
    mine = Claim("child", "token", "key")
    leases.hold(mine)
    leases.renew_now()
    assert renewed == [[mine]]
    leases.let_go(mine)
