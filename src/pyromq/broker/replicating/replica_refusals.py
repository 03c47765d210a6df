"""What a replica does not do: RocketMQ's codes and words, with the reason behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.dispatching.layers import Layer, checking, refusing_each
from pyromq.clock import Clock
from pyromq.security.requests import CHANGING_CODES
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode

_BUSY: Final = "[REJECTREQUEST]system busy, start flow control for a while"
_SEND: Final = (ResponseCode.SYSTEM_BUSY, f"{_BUSY}: this broker is a replica, send to its master")
_PULL: Final = (
    ResponseCode.SYSTEM_BUSY,
    f"{_BUSY}: this broker is a replica that clients do not read (replication.replica_reads, slaveReadEnable)",
)
_SEND_BACK: Final = (ResponseCode.SYSTEM_ERROR, "no master available along with this replica: use the master")
_TRANSACTION: Final = (ResponseCode.SLAVE_NOT_AVAILABLE, "this broker is a replica: transactions end at its master")
_RECALL: Final = (ResponseCode.SLAVE_NOT_AVAILABLE, "this broker is a replica: recall the message at its master")
_POP: Final = (
    ResponseCode.SERVICE_NOT_AVAILABLE,
    "this broker is a replica: messages are popped and acknowledged at its master; ask for the route again",
)
_CHANGE: Final = (
    ResponseCode.SYSTEM_ERROR,
    "Can't modify topic or subscription group from slave broker, please execute it from master broker.",
)

REFUSALS: Final[Mapping[int, tuple[ResponseCode, str]]] = {
    Code.SEND_MESSAGE: _SEND,
    Code.SEND_MESSAGE_V2: _SEND,
    Code.SEND_BATCH_MESSAGE: _SEND,
    Code.SEND_REPLY_MESSAGE: _SEND,
    Code.SEND_REPLY_MESSAGE_V2: _SEND,
    Code.CONSUMER_SEND_MSG_BACK: _SEND_BACK,
    Code.END_TRANSACTION: _TRANSACTION,
    Code.RESUME_CHECK_HALF_MESSAGE: _TRANSACTION,
    Code.RECALL_MESSAGE: _RECALL,
    Code.POP_MESSAGE: _POP,
    Code.ACK_MESSAGE: _POP,
    Code.BATCH_ACK_MESSAGE: _POP,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _POP,
    Code.NOTIFICATION: _POP,
    Code.FORWARD_TO_DEAD_LETTERS: _POP,
    Code.UPDATE_AND_CREATE_TOPIC: _CHANGE,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _CHANGE,
    Code.DELETE_TOPIC_IN_BROKER: _CHANGE,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _CHANGE,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _CHANGE,
    Code.DELETE_SUBSCRIPTIONGROUP: _CHANGE,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _CHANGE,
    Code.SET_MESSAGE_REQUEST_MODE: _CHANGE,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _CHANGE,
    Code.CLONE_GROUP_OFFSET: _CHANGE,
    Code.CLEAN_UNUSED_TOPIC: _CHANGE,
}
"""What changes something that belongs to the master. Offsets may be committed here: the master gets them later."""

PULLS: Final = (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE)
_POPS: Final = (Code.POP_MESSAGE, Code.NOTIFICATION)


_MOVED: Final = (
    ResponseCode.SERVICE_NOT_AVAILABLE,
    "this broker is a replica at the moment: another one is master; ask for the route again",
)

_NOT_YET: Final = "this broker has just become master: it is read when its replicas have what it has; try again"
_MOMENT_MS: Final = 2_000  # replicas of a planned change have it by then; consumers ask every 20 ms until then
_SENDS: Final = frozenset(code for code, refusal in REFUSALS.items() if refusal is _SEND)
_LOCKS: Final = Code.LOCK_BATCH_MQ  # another master may give the same queue to somebody else
_CHECKED: Final = {*REFUSALS, *CHANGING_CODES, _LOCKS} - _SENDS


def replica_layer(*, reads: bool, is_managed: bool) -> Layer:
    """What a replica refuses; ``is_managed``: it may have been the master a moment ago."""
    refusals = dict(REFUSALS)
    if is_managed:
        refusals |= {code: _MOVED for code, refusal in REFUSALS.items() if refusal is _SEND}
    if not reads:
        refusals |= dict.fromkeys(PULLS, _PULL)
    return refusing_each(refusals)


def leased_layer(check: Callable[[], None]) -> Layer:
    """What a master under a failover agent refuses without its lease. Sends have their gate."""
    return checking(_CHECKED, check)


def shut_layer(clock: Clock) -> Layer:
    """What a master refuses that does not know yet how far its consumers may see.

    For a moment pulls are refused with FLOW_CONTROL, which clients repeat after 20 ms (Java's, too), later with
    SERVICE_NOT_AVAILABLE, after which they wait for seconds, and look for another master.
    """
    until_ms = clock.monotonic_ms() + _MOMENT_MS

    def check() -> None:
        is_soon = clock.monotonic_ms() < until_ms
        raise RefusedError(ResponseCode.FLOW_CONTROL if is_soon else ResponseCode.SERVICE_NOT_AVAILABLE, _NOT_YET)

    return checking((*PULLS, *_POPS), check)
