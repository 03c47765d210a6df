from __future__ import annotations

import pytest

from pyromq.broker.state import filters as module
from pyromq.broker.state.filters import KEEP_DEAD_MS, LOOK_MS, Filters
from pyromq.store.tables.filter_table import FilterTable
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.json.heartbeat import SQL_EXPRESSION, Subscription
from tests.unit.broker.builders import ROOT

FILE = ROOT / "config/consumerFilter.json"


class Bench:
    """Filters on a disk in memory, and what groups subscribe to at the moment."""

    def __init__(self) -> None:
        self.disk, self.clock = FaultyDisk(), ManualClock()
        self.live: dict[tuple[str, str], Subscription] = {}
        self.reopen()

    def reopen(self) -> None:
        self.filters = Filters(FilterTable.load(self.disk, ROOT), self.clock)

    def beat(self, text: str, *, version: int = 1, group: str = "g", kind: str = SQL_EXPRESSION) -> None:
        wanted = Subscription(topic="orders", sub_string=text, sub_version=version, expression_type=kind)
        self.live[group, "orders"] = wanted
        self.filters.register(group, [wanted])

    def later(self, ms: int = LOOK_MS) -> None:
        self.clock.advance_ms(ms)
        self.filters.tick(lambda group, topic: self.live.get((group, topic)))

    def expression(self, group: str = "g") -> str | None:
        found = self.filters.filter("orders", group)
        return found.expression if found else None


def test_a_heartbeat_registers_what_can_be_used() -> None:
    bench = Bench()
    bench.beat("a = 1", version=5)
    bench.beat("a =", group="careless")
    bench.beat("TagA", group="simple", kind="TAG")
    assert bench.expression() == "a = 1" and len(bench.filters) == 1
    data = bench.filters.data("orders", "g")
    assert data is not None and data.client_version == 5 and data.born_time == bench.clock.now_ms() and not data.dead


def test_the_newest_heartbeat_counts() -> None:
    bench = Bench()
    bench.beat("a = 1", version=5)
    bench.clock.advance_ms(10)
    bench.beat("a = 1", version=6)
    data = bench.filters.data("orders", "g")
    assert data is not None and data.client_version == 6 and data.born_time == bench.clock.now_ms() - 10
    bench.beat("a = 2", version=4)  # a client whose clock is slow, of a group that was gone in between
    assert bench.expression() == "a = 2"
    bench.beat("a >", version=7)
    assert bench.expression() is None and len(bench.filters) == 0


def test_filters_are_to_be_saved_when_they_changed_and_are_found_again() -> None:
    bench = Bench()
    bench.beat("a = 1", version=5)
    assert bench.filters.table.unsaved
    bench.filters.table.save()
    bench.later()
    assert not bench.filters.table.unsaved, "no group left"
    bench.reopen()
    assert not bench.filters.table.unsaved
    data = bench.filters.data("orders", "g")
    assert data is not None and data.client_version == 5 and bench.expression() == "a = 1"


def test_a_group_that_left_is_dead_then_forgotten_and_alive_when_it_returns() -> None:
    bench = Bench()
    bench.beat("a = 1")
    del bench.live["g", "orders"]
    bench.later()
    dead = bench.filters.data("orders", "g")
    assert dead is not None and dead.dead and dead.dead_time == bench.clock.now_ms()
    assert bench.expression() == "a = 1"  # its retries may still come
    bench.beat("a = 1")
    bench.later()
    alive = bench.filters.data("orders", "g")
    assert alive is not None and not alive.dead and not alive.dead_time
    bench.beat("TagA", kind="TAG")
    bench.later()
    bench.later(KEEP_DEAD_MS)
    assert bench.expression() == "a = 1"
    bench.later()
    assert bench.expression() is None and len(bench.filters) == 0


def test_a_disk_that_refuses_is_asked_again() -> None:
    bench = Bench()
    bench.beat("a = 1")
    bench.disk.fail_at(bench.disk.operations + 1)
    with pytest.raises(OSError, match="simulated"):
        bench.filters.table.save()
    assert not bench.disk.exists(FILE) and bench.filters.table.unsaved
    bench.filters.table.save()
    bench.reopen()
    assert bench.expression() == "a = 1"


def test_a_stored_expression_of_another_dialect_is_dropped() -> None:
    bench = Bench()
    bench.beat("a = 1")
    bench.filters.table.save()
    text = bench.disk.read(FILE).replace(b"a = 1", b"a ~ 1")
    text = text[: text.rindex(b',"crc32"')] + b"}"
    bench.disk.write(FILE, text)
    bench.reopen()
    assert len(bench.filters) == 1 and bench.expression() is None and len(bench.filters) == 0


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILTERS_MAX", 2)
    bench = Bench()
    for number in range(3):
        bench.beat("a = 1", group=f"g{number}")
    bench.beat("a = 2", group="g0")  # one that is known may change
    assert len(bench.filters) == 2 and bench.expression("g0") == "a = 2" and bench.expression("g2") is None


def test_one_heartbeat_compiles_so_much_and_the_next_one_goes_on() -> None:
    bench = Bench()
    wanted = [
        Subscription(topic=f"t{number}", sub_string=f"a = {number}", expression_type=SQL_EXPRESSION)
        for number in range(300)
    ]
    bench.filters.register("g", wanted)
    first = len(bench.filters)
    bench.filters.register("g", wanted)
    assert 100 < first < 200 < len(bench.filters) <= 2 * first + 1
    long = [
        Subscription(topic=f"t{number}", sub_string=f"a = {number} {' ' * 16_000}", expression_type=SQL_EXPRESSION)
        for number in range(10)
    ]
    bench.filters.register("h", long)
    assert sum(bench.filters.data(f"t{number}", "h") is not None for number in range(10)) == 3
