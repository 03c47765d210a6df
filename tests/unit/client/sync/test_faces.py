"""The sync face: what the asyncio clients never see."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from pyromq.client.sync.faces import _call_back
from pyromq.errors import MQError


def test_a_callback_that_fails_is_heard_of(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []

    def fail(receipt: object, error: BaseException | None) -> None:
        told.append((receipt, error))
        raise ZeroDivisionError("mine")

    over, why = Future[Any](), MQError("no")
    over.set_exception(why)
    _call_back(fail, over)
    assert told == [(None, why)]
    assert "callback of a send failed" in caplog.text and "mine" in caplog.text
