"""Direct consume (309 CONSUME_MESSAGE_DIRECTLY): an operator wants to see what the listener makes of one message."""

from __future__ import annotations

from pyromq.client.consumer.base.listeners import Listener
from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.clock import Clock
from pyromq.wire.json import java_json


async def consume_directly(
    listener: Listener, message: ReceivedMessage, clock: Clock, *, orderly: bool, auto_commit: bool
) -> bytes:
    """JSON of the outcome (RocketMQ: ConsumeMessageDirectlyResult); what the listener raises is reported in it."""
    began, remark = clock.monotonic_s(), None
    try:
        verdict = _word(await listener.invoke([message]))
    except Exception as error:  # what the listener raises is reported
        verdict, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
    response = {
        "autoCommit": auto_commit,
        "consumeResult": verdict,
        "order": orderly,
        "remark": remark,
        "spentTimeMills": int((clock.monotonic_s() - began) * 1000),
    }
    return java_json.dumps(response)


def _word(result: object) -> str:
    """A listener's result as RocketMQ's tools call it."""
    match result:
        case BatchResult(status) | OrderlyResult(status):
            return _word(status)
        case None | ConsumeStatus.SUCCESS | OrderlyStatus.SUCCESS:
            return "CR_SUCCESS"
        case OrderlyStatus.COMMIT:
            return "CR_COMMIT"
        case OrderlyStatus.ROLLBACK:
            return "CR_ROLLBACK"
        case _:
            return "CR_LATER"
