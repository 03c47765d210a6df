"""One truth: the same bytes, fed to a broker with the compiled core and to one without, bring about the same."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.store import queue_scan
from pyromq.store.settings import Flush
from pyromq.wire.command import decode_command
from pyromq.wire.frame import FrameDecoder
from tests.running.seeds import seeds
from tests.unit.broker.sending.lane_rig import LaneRig, random_frame

needs_core = pytest.mark.skipif(core is None, reason=f"nothing to compare: {DESCRIPTION}")
_SEEDS = int(os.environ.get("PYROMQ_TRUTH_SEEDS", "8"))
_READS = 60


def reads_of(seed: int) -> list[tuple[int, list[tuple[int, bytes]]]]:
    """Steps: by how much time moves on, and which reads arrive in one loop iteration."""
    rng = Random(seed)
    steps, streams, number, oddness = [], dict.fromkeys(range(3), b""), 1, (0.1, 0.5, 1.0)[seed % 3]
    for _ in range(_READS):
        together = []
        for peer in rng.sample(range(3), rng.choice((1, 1, 1, 2, 3))):
            for _ in range(rng.choice((1, 1, 2, 10))):
                streams[peer] += random_frame(rng, number, oddness)
                number += 1
            stream = streams[peer]
            cut = len(stream) if rng.random() < 0.6 else rng.randrange(len(stream) + 1)  # reads end anywhere
            read, streams[peer] = stream[:cut], stream[cut:]
            together += [(peer, read[at : at + 200_000]) for at in range(0, len(read), 200_000)]
        steps.append((rng.choice((0, 0, 1, 700)), together))
    return steps


async def outcome_of(
    seed: int, flush: Flush, *, with_core: bool, then: Callable[[LaneRig, int], None] | None = None
) -> tuple[dict[str, Any], int]:
    """Everything that came of it, and how many sends the lane took."""
    async with LaneRig(with_core, flush, seed) as rig:
        taken = 0
        if with_core:
            lane_take = rig.sends.lane.take

            def take(connection: Any, data: Any) -> int:
                nonlocal taken
                before = connection.frames_in
                consumed: int = lane_take(connection, data)
                taken += connection.frames_in - before
                return consumed

            rig.sends.lane.take = take
            rig.clients = [type(each)(rig.broker, rig.clock, number) for number, each in enumerate(rig.clients)]
        for number, (passed_ms, together) in enumerate(reads_of(seed)):
            rig.clock.advance_ms(passed_ms)
            if then is not None:
                then(rig, number)
            for peer, read in together:
                rig.arrive(peer, read)
            await rig.settle()
        outcome = rig.outcome()
    if then is None:
        rig.assert_derived_again()
    return outcome, taken


def responses(peer: tuple[Any, ...]) -> list[tuple[int, Any]]:
    return [(command.correlation_id, command) for command in map(decode_command, FrameDecoder().feed(peer[-1]))]


def compare(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for ours, theirs in zip(found["clients"], expected["clients"], strict=True):
        assert ours[:-1] == theirs[:-1]
        for response, wanted in zip(responses(ours), responses(theirs), strict=True):
            assert response == wanted
    for name, value in expected.items():
        if isinstance(value, dict):
            assert found[name].keys() == value.keys(), name
            for key in value:
                assert found[name][key] == value[key], (name, key)
        assert found[name] == value, name


@needs_core
@pytest.mark.parametrize("flush", Flush)
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(_SEEDS))
async def test_the_same_bytes_bring_about_the_same(seed: int, flush: Flush, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"seed {seed}")
    with monkeypatch.context() as patch:
        patch.setattr(queue_scan, "core", None, raising=False)
        expected, _ = await outcome_of(seed, flush, with_core=False)
    found, taken = await outcome_of(seed, flush, with_core=True)
    compare(found, expected)
    assert taken > 3


def full_for_a_while(rig: LaneRig, step: int) -> None:
    """Twice: it is noticed by a commit, and heals."""

    def refuse(kind: str) -> None:
        if kind == "write":
            raise OSError(errno.ENOSPC, "simulated disk is full")

    if step in (20, 40):
        rig.disk.before_each(refuse)
    elif step in (25, 45):
        rig.disk.before_each(lambda kind: None)
        rig.broker.store.health.space_returned()


def syncs_fail(rig: LaneRig, step: int) -> None:
    if step == 30:
        rig.disk.fail_syncs()


@needs_core
@pytest.mark.parametrize("flush", Flush)
@pytest.mark.parametrize("then", [syncs_fail, full_for_a_while])
@pytest.mark.parametrize("seed", [0, 1, 3])
async def test_the_same_bytes_bring_about_the_same_on_a_disk_that_fails(
    seed: int, then: Callable[[LaneRig, int], None], flush: Flush, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(queue_scan, "core", None)
        expected, _ = await outcome_of(seed, flush, with_core=False, then=then)
    found, taken = await outcome_of(seed, flush, with_core=True, then=then)
    compare(found, expected)
    assert taken > 3
