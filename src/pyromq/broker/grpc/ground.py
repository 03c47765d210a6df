"""What every part of the gRPC front door needs of its broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyromq.broker.base.access import Access, GuardedAccess
from pyromq.broker.base.session import Session
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.dispatching.caller import Caller, OnAnswer
from pyromq.broker.dispatching.dispatcher import RequestDispatcher
from pyromq.broker.grpc.statuses import StatusError
from pyromq.broker.popping.pop_lane import PopLane
from pyromq.broker.state.tables import Tables
from pyromq.broker.tenure import Tenure
from pyromq.clock import Clock
from pyromq.model.topic import TopicConfig
from pyromq.net.address import Address
from pyromq.security.resources import Action
from pyromq.wire.grpc.codes import StatusCode

_ANY_USE: Final = (Action.PUB, Action.SUB, Action.GET)


@dataclass(slots=True, kw_only=True)
class FrontGround:
    """``address`` is where clients reach this door, known once it listens."""

    settings: BrokerSettings
    clock: Clock
    dispatcher: RequestDispatcher
    current_tenure: Callable[[], Tenure | None]
    address: Address
    _asked: Caller | None = None  # while a read is handled: who has asked last, and has not been served

    @property
    def tenure(self) -> Tenure:
        """Tenure of the current role. Raises StatusError while the broker has no role."""
        found = self.current_tenure()
        if found is None:
            raise StatusError(StatusCode.HA_NOT_AVAILABLE, "the broker changes its role; try again")
        return found

    @property
    def tables(self) -> Tables:
        return self.tenure.parts.tables

    @property
    def access(self) -> Access:
        return self.tenure.access

    def pop_lane(self, caller: Caller) -> PopLane | None:
        """What serves pops and acknowledgements of a caller at once; None: they go the way of requests."""
        tenure = self.current_tenure()
        lane = tenure.parts.handlers.pops.lane if tenure is not None else None
        return lane if lane is not None and lane.serves(caller) else None

    def ask(self, caller: Caller, code: int, header: object, on_answer: OnAnswer) -> None:
        """``Caller.ask`` while a read is handled: served at its end, and not in the next loop iteration.

        What one caller asks in a row is served together, and before what others ask behind it. Raises
        ConnectionLostError, TooManyRequestsError.
        """
        if self._asked is not caller:
            self.hand_over()
        caller.ask(code, header, b"", on_answer)
        self._asked = caller

    def hand_over(self) -> None:
        """Have what was asked served: the read has been handled, or something else is next."""
        if self._asked is not None:
            asked, self._asked = self._asked, None
            asked.hand_over()

    def topic(self, name: str, session: Session) -> TopicConfig:
        """Configuration of a topic. Raises StatusError: nothing creates topics over gRPC, and a user that may do
        nothing with a topic does not learn whether it exists.
        """
        access, principal = self.access, session.principal
        if isinstance(access, GuardedAccess) and principal is not None:
            ip = session.peer.ip
            if not access.guard.may(principal, name, _ANY_USE, ip):
                text = f"User:{principal.name} has no permission to access topic {name} from {ip}"
                raise StatusError(StatusCode.UNAUTHORIZED, text)
        config = self.tables.topics.get(name)
        if config is None:
            text = f"topic {name} does not exist on broker {self.settings.name}; create it: pyromq topic create {name}"
            raise StatusError(StatusCode.TOPIC_NOT_FOUND, text)
        return config
