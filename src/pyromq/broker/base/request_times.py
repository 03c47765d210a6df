"""How requests ended and how long they took, counted so that the usual ones pay next to nothing.

sends     the group commit reports all that it answers together; of those that nothing waited for, their number only
pulls     ``outcome`` is set when a response leaves; the turn of the connection reads the clock anyway
others    likewise; those that another process answers, or that wait for name servers, are not timed
refused   one by one: that is not the way of many
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from pyromq.metrics.broker_table import FSYNC, GROUP_COMMIT, GROUP_CREATE_TIME, RPC_LATENCY, TOPIC_CREATE_TIME
from pyromq.metrics.samples import Histogram
from pyromq.model.names import DERIVED_TOPIC_CHARACTERS_MAX
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.received import Received

SUCCESS: Final = int(ResponseCode.SUCCESS)
HELD: Final = -1  # there is no response yet
_LATER: Final = frozenset(
    (
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        RequestCode.QUERY_ASSIGNMENT,
        RequestCode.RECALL_MESSAGE,
        RequestCode.RESUME_CHECK_HALF_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    )
)
_CREATES: Final = {
    int(RequestCode.UPDATE_AND_CREATE_TOPIC): TOPIC_CREATE_TIME,
    int(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST): TOPIC_CREATE_TIME,
    int(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP): GROUP_CREATE_TIME,
    int(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST): GROUP_CREATE_TIME,
}
_SENDS: Final = frozenset((RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE))
_GROUPED: Final = _SENDS | {RequestCode.END_TRANSACTION, RequestCode.CONSUMER_SEND_MSG_BACK}  # by group commits
_PULLS: Final = frozenset((RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE))
_KNOWN: Final = frozenset(map(int, RequestCode))
NAMES_MAX: Final = 10_000  # topics and groups that refusals are counted for; clients may name anything
_UNNAMED: Final = "_unknown"


class RequestTimes:
    """Plain numbers, counted up directly where things happen; one for each broker."""

    def __init__(self) -> None:
        self.outcome = SUCCESS  # of the request that is being handled
        self.began_s = 0.0  # when that was, by the monotonic clock
        self.answered_at_once: defaultdict[int, int] = defaultdict(int)  # sends, by request; not in ``latency`` yet
        self._latency: dict[tuple[int, int, bool], Histogram] = {}
        self.creations: dict[tuple[str, bool], Histogram] = {}  # by name of the metric, and whether it worked
        self.refused: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.refused_sends: defaultdict[tuple[str, int], int] = defaultdict(int)  # by topic
        self.refused_pulls: defaultdict[tuple[str, str, int], int] = defaultdict(int)  # by group and topic
        self.commits = Histogram(GROUP_COMMIT.buckets)
        self.flushes = Histogram(FSYNC.buckets)

    @property
    def latency(self) -> dict[tuple[int, int, bool], Histogram]:
        """By request, response, and whether it was held."""
        for code, count in self.answered_at_once.items():
            self.note(code, SUCCESS, 0, count)
        self.answered_at_once.clear()
        return self._latency

    def note(self, code: int, response: int, took_ms: float, count: int = 1, *, held: bool = False) -> None:
        """``count`` requests of one kind were answered after that time."""
        histogram = self._latency.get((code, response, held)) or self._histogram(code, response, held)
        histogram.observe(took_ms, count)

    def _histogram(self, code: int, response: int, held: bool) -> Histogram:
        """Codes that do not exist share one: clients may send any."""
        key = code if code in _KNOWN else -1, response, held
        return self._latency.setdefault(key, Histogram(RPC_LATENCY.buckets))

    def done(self, code: int, now_s: float) -> None:
        """A request other than a send was handled; the next one of this turn begins now."""
        outcome, self.outcome = self.outcome, SUCCESS
        if outcome != HELD and code not in _LATER:
            took_ms = (now_s - self.began_s) * 1000
            self.note(code, outcome, took_ms)
            if code in _CREATES:
                metric, worked = _CREATES[code], outcome == SUCCESS
                key = metric.name, worked
                self.creations.setdefault(key, Histogram(metric.buckets)).observe(took_ms)
        self.began_s = now_s

    def answered(self, code: int, count: int, waited_ms: int, response: int = SUCCESS) -> None:
        """A group commit has answered so many sends, all stored; the code of one stands for all."""
        self.note(code, response, waited_ms, count)

    def refuse_many(self, code: int, response: int, count: int) -> None:
        """Sends that were taken together are answered with an error."""
        self.refused[code, response] += count
        self.note(code, response, 0, count)

    def refuse(self, request: Received[Any], response: int, *, known: bool = True, in_turn: bool = True) -> None:
        """A request is answered with an error.

        Not ``known``: its sender may not ask, and is refused before the request has its turn. Not ``in_turn``: it had
        its turn, and waited since then.
        """
        code = request.code if request.code in _KNOWN else -1
        self.refused[code, response] += 1
        if known and in_turn and code not in _GROUPED:
            self.outcome = response  # ``done`` comes next
        else:
            self.note(code, response, 0)
        if code in _SENDS or code in _PULLS:
            header = request.header if known else None
            topic, group = getattr(header, "topic", None) or "", getattr(header, "consumer_group", None) or ""
            if code in _SENDS:
                self.refused_sends[_named(topic, self.refused_sends), response] += 1
            else:
                room = self.refused_pulls
                self.refused_pulls[_named(group, room), _named(topic, room), response] += 1


def _named(name: str, room: defaultdict[Any, int]) -> str:
    is_one = 0 < len(name) <= DERIVED_TOPIC_CHARACTERS_MAX
    return name if is_one and len(room) < NAMES_MAX else _UNNAMED
