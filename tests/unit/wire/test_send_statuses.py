"""One table of the codes that mean stored."""

from __future__ import annotations

from pathlib import Path

import pyromq
from pyromq.model.message import SendStatus
from pyromq.wire.codes import ResponseCode
from pyromq.wire.send_statuses import SEND_STATUSES, STORED_CODES

SOURCE = Path(pyromq.__file__).parent
_NAMES = ("ResponseCode.FLUSH_DISK_TIMEOUT", "ResponseCode.FLUSH_SLAVE_TIMEOUT")


def test_every_status_has_its_code() -> None:
    assert STORED_CODES == {0, 10, 11, 12}
    assert set(SEND_STATUSES.values()) == set(SendStatus)
    for code, status in SEND_STATUSES.items():
        assert code == 0 or ResponseCode(code).name == status.name


def test_nobody_but_the_table_and_the_broker_names_these_codes() -> None:
    at_home = {SOURCE / "wire" / "codes.py", SOURCE / "wire" / "send_statuses.py"}
    others = (path for path in SOURCE.rglob("*.py") if path not in at_home and path.parts[-3] != "broker")
    assert [path for path in others if any(name in path.read_text() for name in _NAMES)] == []
