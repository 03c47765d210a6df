"""Hooks around a send: a hook that heard its beginning hears its end, and never takes a failure for a success."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.core.hooks import SendHook, SendHooks
from pyromq.errors import ConnectFailedError, MQError
from pyromq.model.message import Message, SendReceipt, SendStatus
from pyromq.model.queue import QueueId
from pyromq.testing import ManualClock

MESSAGES = [Message("orders", b"1"), Message("orders", b"2")]
RECEIPT = SendReceipt(SendStatus.SEND_OK, "id", "offset id", QueueId("orders", "a", 0), 7)


class Seen(SendHook):
    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.begun: list[bytes] = []
        self.ended: list[tuple[bytes, SendReceipt | None, MQError | None, int]] = []

    def before_send(self, message: Message) -> None:
        self.begun.append(message.body)

    def after_send(self, message: Message, receipt: SendReceipt | None, error: MQError | None, elapsed_ms: int) -> None:
        self.ended.append((message.body, receipt, error, elapsed_ms))
        if self.fails:
            raise RuntimeError("a mistake of the hook")


def test_messages_of_a_batch_without_receipt_have_the_error() -> None:
    clock, seen, error = ManualClock(), Seen(), ConnectFailedError("refused")
    with pytest.raises(ConnectFailedError), SendHooks([seen], clock).around(MESSAGES) as receipts:
        assert seen.begun == [b"1", b"2"]
        receipts.append(RECEIPT)
        clock.advance_ms(30)
        raise error
    assert seen.ended == [(b"1", RECEIPT, None, 30), (b"2", None, error, 30)]


@pytest.mark.parametrize("cause", [asyncio.CancelledError(), KeyError("a mistake of the selector")])
def test_a_send_that_was_given_up_is_not_told_as_a_success(cause: BaseException) -> None:
    seen = Seen()
    with pytest.raises(type(cause)), SendHooks([seen], ManualClock()).around(MESSAGES[:1]):
        raise cause
    ((_, receipt, error, _),) = seen.ended
    assert receipt is None
    assert isinstance(error, MQError)
    assert error.__cause__ is cause


def test_a_hook_that_fails_afterwards_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Seen(fails=True), Seen()
    with SendHooks([first, second], ManualClock()).around(MESSAGES[:1]) as receipts:
        receipts.append(RECEIPT)
    assert [ended[1] for ended in (*first.ended, *second.ended)] == [RECEIPT, RECEIPT]
    assert "hook failed after a send" in caplog.text


def test_a_hook_may_forbid_a_send() -> None:
    class Never(SendHook):
        def before_send(self, message: Message) -> None:
            raise ConnectFailedError("not this one")

    with pytest.raises(ConnectFailedError), SendHooks([Never()], ManualClock()).around(MESSAGES):
        pytest.fail("the block was entered")
