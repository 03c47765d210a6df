"""Acknowledger: the only code that answers a send once it is stored, and the only one that asks whether it may.

    release              safe as promised                                                 [SUCCESS]
    release_unconfirmed  stored, but the disk or replicas did not confirm it              [FLUSH_DISK_TIMEOUT,
                                                                           FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE]
    refuse               not stored, or the lease has ended and nobody knows whether it is [any other]

Whatever is released after the end of the lease is refused: ``Authority.may_acknowledge`` is asked when it leaves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from pyromq.broker.base.authority import Authority, outcome_unknown
from pyromq.broker.base.refusals import refusal_of
from pyromq.broker.base.request_times import SUCCESS, RequestTimes
from pyromq.broker.commit.commit import Commit, OnStored, PendingSend, SendsOfOneRead
from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_response
from pyromq.wire.fast.responses import correlation_ids, with_status
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

REMARKS: Final = {
    ResponseCode.FLUSH_DISK_TIMEOUT: "the message is stored, but the disk did not confirm it in time",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "the message is stored here, but replicas did not confirm it in time",
    ResponseCode.SLAVE_NOT_AVAILABLE: (
        "the message is stored here, but too few replicas are in sync to have it as well"
    ),
}
# clients take every code but 0 for "not done" there, and do it again
_WITHOUT_STATUS = frozenset(
    (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.END_TRANSACTION, RequestCode.RESUME_CHECK_HALF_MESSAGE)
)


class Acknowledger:
    """The end of every commit's way, on the loop."""

    __slots__ = ("_clock", "_may_acknowledge", "_times")

    def __init__(self, authority: Authority, times: RequestTimes, clock: Clock) -> None:
        self._may_acknowledge = authority.may_acknowledge
        self._times = times
        self._clock = clock

    def release(self, commit: Commit) -> None:
        """Say that it is safe."""
        if not self._may_acknowledge(commit.end):
            self.refuse(outcome_unknown(), commit)
            return
        sends = commit.sends
        if sends:
            _respond(sends)
            if commit.since_ms < 0:
                self._times.answered_at_once[sends[0][1].code] += commit.send_count
            else:
                self._count(commit, SUCCESS)
        if commit.internal:
            _report(commit.internal, None)

    def release_together(self, commits: list[Commit]) -> None:
        """Say of these that they are safe; they are in the order of the log.

        Of all that is released together, a connection gets its responses in one write, and in order.
        """
        if not self._may_acknowledge(commits[-1].end):
            self.refuse(outcome_unknown(), *commits)
            return
        sends = [send for commit in commits for send in commit.sends]
        sends.sort(key=lambda send: id(send[0]))
        _respond(sends)
        for commit in commits:
            self._count(commit, SUCCESS)
            _report(commit.internal, None)

    def release_unconfirmed(self, commit: Commit, code: ResponseCode) -> None:
        """Say that it is stored, but not as safely as it should be.

        What has no status is done, unless it is a send-back that another master, or the disk, may not have: its
        consumer lets go of the message, so it does better to send a second copy than to have none.
        """
        is_alone = code == ResponseCode.SLAVE_NOT_AVAILABLE
        # a member that joins has to have what was answered alone; a timeout promises nothing
        if not self._may_acknowledge(commit.end if is_alone else 0):
            self.refuse(outcome_unknown(), commit)
            return
        remark = REMARKS[code]
        for connection, request, response in commit.sends:
            if isinstance(request, SendsOfOneRead) or request.code not in _WITHOUT_STATUS:
                for each in with_status(response, code, remark):
                    connection.send(each)
            elif response:
                is_done = is_alone or request.code != RequestCode.CONSUMER_SEND_MSG_BACK
                connection.send(response if is_done else _error(request, ResponseCode.SYSTEM_ERROR, remark))
        self._count(commit, code)
        _report(commit.internal, None)  # it is stored in every case

    def refuse(self, error: MQError, *commits: Commit) -> None:
        """Answer these with an error."""
        code, remark = refusal_of(error)
        for commit in commits:
            for connection, request, response in commit.sends:
                if isinstance(request, SendsOfOneRead):
                    self._times.refuse_many(request.code, code, request.sends)
                    for number in correlation_ids(response):
                        connection.send(encode_response(code, number, remark=remark))
                    continue
                self._times.refuse(request, code, in_turn=False)
                if not request.is_oneway:
                    connection.send(_error(request, code, remark))
            _report(commit.internal, error)

    def _count(self, commit: Commit, code: int) -> None:
        """Its sends were answered with that code; the request code of the first stands for all."""
        if commit.sends:
            waited_ms = max(0, self._clock.monotonic_ms() - commit.since_ms) if commit.since_ms >= 0 else 0
            self._times.answered(commit.sends[0][1].code, commit.send_count, waited_ms, code)


def _respond(sends: list[PendingSend]) -> None:
    """What leaves on one connection, and stands side by side, leaves in one write.

    Now, since a loop iteration for each would cost more.
    """
    last = len(sends) - 1
    for at, (connection, request, response) in enumerate(sends):
        count = request.responses if type(request) is SendsOfOneRead else 1
        try:
            if at < last and sends[at + 1][0] is connection:  # as the sends of one read do
                if response:
                    connection.queue(response, count)
            elif response:
                connection.send_now(response, count)
            else:
                connection.flush()
        except Exception:  # a defect of one connection must not keep the others from their responses
            logger.exception("response not sent: peer=%s", connection.remote_text)
            connection.abort("a response could not be sent")


def _report(internal: Iterable[OnStored], error: MQError | None) -> None:
    for on_stored in internal:
        try:
            on_stored(error)
        except Exception:  # a defect of one must not keep the others from hearing
            logger.exception("the callback of an internal write failed")


def _error(request: Received[Any], code: ResponseCode, remark: str) -> bytes:
    return encode_response(code, request.correlation_id, remark=remark, serialize_type=request.serialize_type)
