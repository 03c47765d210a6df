"""One way to an acknowledgement: who may answer a send, and how large the broker is allowed to be."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pyromq.broker
from pyromq.broker.broker import Broker

FOLDER = Path(pyromq.broker.__file__).parent


def test_the_broker_is_small() -> None:
    assert len(inspect.getsourcelines(Broker)[0]) <= 250


def test_only_the_acknowledger_asks_whether_a_send_may_be_acknowledged() -> None:
    asking = {
        str(path.relative_to(FOLDER))
        for path in FOLDER.rglob("*.py")
        if re.search(r"\.may_acknowledge\b", path.read_text(encoding="utf-8"))
    }
    assert asking == {"commit/acknowledger.py"}
