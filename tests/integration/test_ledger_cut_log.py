"""A log that lost its end, as a power failure leaves it without synchronous flush: what is sent then is not skipped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.aio import Admin
from pyromq.testing import LoopbackBroker
from tests.integration.ledger import Ledger, report
from tests.integration.ledger_rig import GROUP, TOPIC, Clerk, fill

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

OFFSETS = Path("config") / "consumerOffset.json"


async def test_a_group_that_was_ahead_of_a_cut_log_gets_what_is_sent_next(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    before, cut = tmp_path / "before", tmp_path / "cut"
    async with LoopbackBroker(folder=before) as broker:
        ledger = Ledger(broker.nameserver, TOPIC, GROUP)
        async with Admin(broker.nameserver) as admin:
            await admin.topics.create(TOPIC, queues=1)
        await fill(broker, ledger, 50)
        shutil.copytree(before, cut)
        await fill(broker, ledger, 50)
        async with Clerk(ledger, 0).member(broker):
            assert (await ledger.settled()).is_settled
    shutil.copy(before / OFFSETS, cut / OFFSETS)  # the group's progress was saved, the end of the log was not

    async with LoopbackBroker(folder=cut) as broker:
        ledger = Ledger(broker.nameserver, TOPIC, GROUP)
        await fill(broker, ledger, 30)
        async with Clerk(ledger, 0).member(broker):
            found = await ledger.settled(10)
    assert found.is_settled, str(found)
    report(found, record_property)
