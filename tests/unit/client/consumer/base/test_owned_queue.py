"""The life of a queue at one member."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pyromq.client.consumer.base.consume_stats import ConsumeStats
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.rules.pull_state import PullSettings
from pyromq.client.consumer.rules.queue_state import Ownership, RunState
from pyromq.model.queue import QueueId
from pyromq.testing import ManualClock
from tests.unit.client.messages import messages


def taken(*offsets: int) -> OwnedQueue:
    clock = ManualClock()
    owned = OwnedQueue(QueueId("T", "b", 0), 0, clock, PullSettings(), ConsumeStats(clock).of("T"))
    owned.buffer.add(cast(Any, messages(*offsets)))
    return owned


def facts(owned: OwnedQueue) -> tuple[bool, bool, bool]:
    return owned.may_hand_out, owned.is_ours, owned.is_released


async def test_each_state_says_what_may_be_done_with_its_messages() -> None:
    owned = taken()
    assert facts(owned) == (True, True, False)
    owned.revoke()
    assert facts(owned) == (False, True, False), "what a listener has may end"
    owned.keep()
    assert facts(owned) == (True, True, False)
    owned.abandon()
    assert facts(owned) == (False, False, False)
    owned.release()
    assert facts(owned) == (False, False, True)


async def test_a_pause_is_apart_from_ownership() -> None:
    owned = taken()
    owned.pause()
    assert facts(owned) == (False, True, False)
    owned.revoke()
    owned.resume()
    assert not owned.may_hand_out, "it is still to go"
    owned.pause()
    owned.keep()
    assert not owned.may_hand_out and owned.ownership is Ownership.OWNED, "it comes back paused"
    owned.resume()
    assert owned.may_hand_out


async def test_a_queue_that_was_given_up_for_good_is_not_kept() -> None:
    owned = taken()
    owned.abandon()
    with pytest.raises(AssertionError, match="KEPT in state ABANDONED"):
        owned.keep()
    owned.release()
    with pytest.raises(AssertionError, match="RELEASED in state RELEASED"):
        owned.release()


async def test_a_release_closes_the_buffer_and_ends_pulling() -> None:
    owned = taken(1, 2)
    loop = asyncio.ensure_future(asyncio.Event().wait())
    owned.pulled_by(cast(Any, loop))
    owned.release()
    assert owned.buffer.commit_offset() is None
    await asyncio.wait([loop])
    assert loop.cancelled()


async def test_a_run_rests_after_a_failure_and_then_begins_again() -> None:
    owned = taken(1)
    run = cast(Any, asyncio.ensure_future(asyncio.sleep(0)))
    owned.begin_run(run)
    assert (owned.run, owned.run_state) == (run, RunState.RUNNING)
    owned.rest()
    owned.end_run()
    assert (owned.run, owned.run_state) == (None, RunState.RESTING)
    owned.end_rest()
    owned.begin_run(run)
    owned.end_run()
    assert (owned.run, owned.run_state) == (None, RunState.IDLE)
    await run


async def test_looking_at_the_buffer_settles_nothing() -> None:
    owned = taken(0, 1, 2)
    owned.succeeded(owned.take(1), 0.0, 1_000)
    assert len(owned.buffer) == 3
    assert (len(owned.settle()), len(owned.buffer), owned.buffer.commit_offset()) == (2, 2, 1)
