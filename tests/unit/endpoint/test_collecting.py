"""Collecting: in steps, once for all who ask at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from pyromq.endpoint.collecting import TURN_S, Collection
from pyromq.metrics.broker_table import TOPIC_NUMBER
from pyromq.metrics.health import HealthReport, Startup
from pyromq.metrics.process_table import BUILD_INFO
from pyromq.metrics.samples import Family, ServerSamples
from pyromq.testing import ManualClock


class Slow:
    """A source whose every step takes a whole turn."""

    def __init__(self, clock: ManualClock, steps: int) -> None:
        self._clock, self._steps = clock, steps
        self.begun = self.done = 0
        self.fails = False

    def startup(self) -> Startup:
        return Startup(True, "")

    def health(self) -> HealthReport:
        return HealthReport()

    def collect(self) -> Generator[None, None, list[ServerSamples]]:
        self.begun += 1
        for _ in range(self._steps):
            self._clock.advance_ms(int(TURN_S * 1000))
            self.done += 1
            yield
        if self.fails:
            raise ZeroDivisionError("a defect")
        return [ServerSamples({"node_id": "a"}, [Family(TOPIC_NUMBER, [((), self.done)])])]


async def test_others_get_their_turns_in_between() -> None:
    clock = ManualClock()
    collection, source = Collection(clock), Slow(clock, 50)
    collection.sources = [source]
    turns: list[int] = []

    async def other() -> None:
        while source.done < 50:
            turns.append(source.done)
            await asyncio.sleep(0)

    parts, _ = await asyncio.gather(collection.parts(), other())
    assert len(set(turns)) >= 40, "hardly a turn with two steps"
    assert parts[1].families[0].samples == [((), 50)]
    names = {family.metric.name for family in parts[0].families}
    assert BUILD_INFO.name in names and parts[0].common == {"node_id": "a"}


async def test_who_asks_at_the_same_time_or_soon_after_gets_the_same() -> None:
    clock = ManualClock()
    collection, source = Collection(clock), Slow(clock, 3)
    collection.sources = [source]
    first, second = await asyncio.gather(collection.parts(), collection.parts())
    assert first is second and source.begun == 1
    clock.advance_ms(900)
    assert await collection.parts() is first
    clock.advance_ms(200)
    assert await collection.parts() is not first and source.begun == 2


async def test_who_goes_away_does_not_take_the_collection_with_him() -> None:
    clock = ManualClock()
    collection, source = Collection(clock), Slow(clock, 20)
    collection.sources = [source]
    gone, staying = (asyncio.ensure_future(collection.parts()) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await staying)[1].families and source.begun == 1


async def test_a_defect_of_a_source_is_told_and_the_next_collection_made() -> None:
    clock = ManualClock()
    collection, source = Collection(clock), Slow(clock, 1)
    collection.sources = [source]
    source.fails = True
    with pytest.raises(ZeroDivisionError):
        await collection.parts()
    source.fails = False
    assert await collection.parts()
