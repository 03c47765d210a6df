"""While the gate is held, as for a planned change of master, no send is stored, whatever way it takes."""

from __future__ import annotations

import pytest

from pyromq.compiled_core import DESCRIPTION, core
from tests.unit.broker.sending.lane_rig import LaneRig
from tests.unit.broker.sending.test_reduced_queues import MODES, WAYS, frame


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("with_core", MODES)
async def test_sends_wait_at_the_gate_and_are_stored_in_order_when_it_opens(way: str, with_core: bool) -> None:
    if with_core and core is None:
        pytest.skip(f"there is no lane: {DESCRIPTION}")
    async with LaneRig(with_core) as rig:
        for number in (1, 2):  # cold and warm
            rig.arrive(0, frame(number, 1, way))
            await rig.settle()
        store, gate = rig.broker.store, rig.broker.parts.write_path.gate
        before = store.end_position
        gate.hold()
        rig.arrive(0, frame(3, 1, way))
        rig.arrive(1, frame(4, 1, way))
        await rig.settle()
        assert (store.end_position, len(gate)) == (before, 2)
        gate.release()
        await rig.settle()
        assert store.end_position > before and len(gate) == 0
