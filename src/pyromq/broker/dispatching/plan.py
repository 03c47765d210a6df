"""Request plan: which function answers which request at the moment, and which lanes are open.

    handlers of all codes ─▶ layer ─▶ layer ─▶ … ─▶ RequestPlan

A lane answers requests without their handlers, so it is open only where no layer stands in front of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pyromq.broker.base.responses import Deferred, Immediate
from pyromq.broker.dispatching.layers import Layer, Wrap
from pyromq.security.requests import CHANGING_CODES
from pyromq.wire.codes import RequestCode as Code

ANSWERED_AFTER_REGISTRATION: Final = frozenset((Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST))
"""The response leaves when name servers know the topic: the client may send at once, to the queues that it has."""

ANSWERED_AFTER_REPLICATION: Final = frozenset(
    (
        Code.DELETE_TOPIC_IN_BROKER,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        Code.DELETE_SUBSCRIPTIONGROUP,
        *CHANGING_CODES,
    )
)
"""The response leaves when the replicas that the lease names have the change: it outlives a failover."""

QUICK: Final = frozenset(
    (
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.END_TRANSACTION,
        Code.CONSUMER_SEND_MSG_BACK,
    )
)
"""They share a commit, so all that one read brought are served in one turn."""

UNDELAYED: Final = QUICK | {
    Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE,
    Code.POP_MESSAGE,
    Code.ACK_MESSAGE,
    Code.BATCH_ACK_MESSAGE,
    Code.CHANGE_MESSAGE_INVISIBLETIME,
}
"""They do not wait while thousands of connections ask for something else at once: heartbeats after a restart."""

_SEND_LANE: Final = (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE)
_PULL_LANE: Final = (Code.PULL_MESSAGE,)
_POP_LANE: Final = (Code.POP_MESSAGE, Code.ACK_MESSAGE, Code.BATCH_ACK_MESSAGE)


class Lanes(NamedTuple):
    """Which lanes take requests before these are decoded."""

    sends: bool = False
    pulls: bool = False
    pops: bool = False  # and their acknowledgements


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlan:
    """The dispatcher follows it until it gets the next one."""

    immediate: Mapping[int, Immediate]
    deferred: Mapping[int, Deferred]
    quick: Mapping[int, Deferred]  # of the deferred ones, those after which nobody looks at the clock
    lanes: Lanes

    def behind(self, layer: Layer) -> RequestPlan:
        """Return the plan with one more layer in front of everything."""
        return plan_requests(self.immediate, self.deferred, [layer], self.lanes)


NOTHING: Final = RequestPlan(immediate={}, deferred={}, quick={}, lanes=Lanes())


def plan_requests(
    immediate: Mapping[int, Immediate], deferred: Mapping[int, Deferred], layers: Sequence[Layer], possible: Lanes
) -> RequestPlan:
    """Put the layers in front of the handlers, the first one next to them.

    ``possible``: lanes that are closed for another reason stay closed.
    """
    found = {code: _behind(layers, code, handler, _of_deferred) for code, handler in deferred.items()}
    return RequestPlan(
        immediate={code: _behind(layers, code, handler, _of_immediate) for code, handler in immediate.items()},
        deferred=found,
        quick={code: found[code] for code in QUICK if code in found},
        lanes=Lanes(
            possible.sends and _is_free(layers, _SEND_LANE),
            possible.pulls and _is_free(layers, _PULL_LANE),
            possible.pops and _is_free(layers, _POP_LANE),
        ),
    )


_of_immediate: Final[Callable[[Layer], Wrap]] = attrgetter("immediate")
_of_deferred: Final[Callable[[Layer], Wrap]] = attrgetter("deferred")


def _behind(layers: Sequence[Layer], code: int, handler: Any, wrapper_of: Callable[[Layer], Wrap]) -> Any:
    for each in layers:
        if each.covers(code):
            handler = wrapper_of(each)(code, handler)
    return handler


def _is_free(layers: Sequence[Layer], codes: Sequence[int]) -> bool:
    return not any(each.covers(code) for each in layers for code in codes)
