"""Who may acknowledge: a broker alone always, one under an agent while its lease lasts; and who asks."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyromq.broker
from pyromq.broker.base.authority import FOR_EVER_MS, Leased, Unmanaged, not_master, outcome_unknown
from pyromq.broker.base.refusals import RefusedError
from pyromq.testing import FaultyDisk
from pyromq.wire.codes import ResponseCode
from tests.unit.broker.base.test_lease import Watch, lease_of

SOURCES = {path.name: path.read_text() for path in Path(pyromq.broker.__path__[0]).rglob("*.py")}


def test_a_broker_without_an_agent_always_may() -> None:
    authority = Unmanaged()
    authority.check_accept()
    authority.note_shown(5)
    assert authority.may_acknowledge(1 << 40) and authority.wait_left_ms() == FOR_EVER_MS


def test_what_consumers_were_shown_counts_as_acknowledged_with_a_lease_and_without() -> None:
    watch = Watch()
    lease = lease_of(FaultyDisk(), watch)
    lease.promoted(1, 100)
    authority = Leased(lease)
    authority.note_shown(300)
    authority.note_shown(200)
    assert lease.acknowledged == 300
    assert lease.grant(1, watch.now_s + 1, ())
    assert authority.may_acknowledge(0) and lease.acknowledged == 300, "of a time-out nothing is promised"
    authority.check_accept()
    watch.now_s += 1
    with pytest.raises(RefusedError) as refused:
        authority.check_accept()
    assert refused.value.code == not_master().code == ResponseCode.SERVICE_NOT_AVAILABLE, "it is sent elsewhere"
    assert outcome_unknown().code == ResponseCode.SYSTEM_ERROR


def test_the_acknowledger_alone_asks_whether_an_acknowledgement_may_leave() -> None:
    assert {name for name, text in SOURCES.items() if "may_acknowledge(" in text} == {"acknowledger.py", "authority.py"}


def test_the_acknowledger_alone_changes_the_status_of_what_is_stored() -> None:
    assert {name for name, text in SOURCES.items() if "with_status(" in text} == {"acknowledger.py"}
