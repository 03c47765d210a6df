"""Sends that the compiled core took: what was acknowledged is there after a power cut at any moment."""

from __future__ import annotations

from random import Random

import pytest

from pyromq.compiled_core import DESCRIPTION, core
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import ManualClock
from pyromq.testing.faulty_disk import CrashMode
from pyromq.wire.command import decode_command
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.properties import decode_properties
from tests.crash.script import check_agreement, log_records
from tests.running.seeds import seeds
from tests.unit.broker.sending.lane_rig import ROOT, STORE, LaneRig, send_frame
from tests.unit.net.fakes import turn

pytestmark = pytest.mark.skipif(core is None, reason=f"there is no lane: {DESCRIPTION}")


def acknowledged(rig: LaneRig) -> set[int]:
    """By the numbers of their requests."""
    frames = [frame for peer in rig.clients for frame in FrameDecoder().feed(peer.answered)]
    return {command.correlation_id for command in map(decode_command, frames) if command.code == 0}


@pytest.mark.parametrize("mode", CrashMode)
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(3))
async def test_what_was_acknowledged_survives_a_power_cut_at_any_moment(seed: int, mode: CrashMode) -> None:
    rng, number, taken = Random(seed), 1, 0
    async with LaneRig(with_core=True, flush=Flush.SYNC, seed=seed) as rig:
        for _ in range(25):
            for peer in rng.sample(range(3), rng.choice((1, 2, 3))):
                read = b""
                for _ in range(rng.choice((1, 3, 12))):
                    text = f"UNIQ_KEY\x01{number:032X}\x02"
                    read += send_frame(number, f"topic-{rng.randrange(3)}", rng.randrange(2), text, rng.randbytes(300))
                    number += 1
                rig.arrive(peer, read)
            for _ in range(rng.randrange(4)):
                await turn()  # a flush may be under way
            told = acknowledged(rig)
            taken = max(taken, rig.sends.lane.known)
            disk = rig.disk.after_crash(mode, rng)
            settings = StoreSettings(flush=Flush.SYNC, **STORE)
            with MessageStore.open(ROOT, settings, disk=disk, clock=ManualClock()) as store:
                found = {int(decode_properties(record.properties)["UNIQ_KEY"], 16) for record in log_records(store)}
                assert told <= found
                check_agreement(store)
        await rig.settle()
        assert len(acknowledged(rig)) == number - 1
        assert taken == 6, "the lane knew all queues"
