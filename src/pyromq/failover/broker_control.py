"""The broker beside an agent, over its port for clients: signed and encrypted as any client's requests are."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import msgspec

from pyromq.client.core.client import Client
from pyromq.client.core.settings import ClientSettings
from pyromq.errors import RemoteProtocolError
from pyromq.failover.record import BrokerStatus, LeaseRecord
from pyromq.settings import Backoff
from pyromq.wire.codes import RequestCode
from pyromq.wire.json.membership import Control, MemberAction

_TIMEOUT_MS: Final = 1_000
_BACKOFF: Final = Backoff(first_ms=20, ceiling_ms=200)  # it is on this machine, and away for moments only


class BrokerBeside:
    """``agent.BrokerControl`` of a running broker; ``async with``. Each method raises MQError."""

    def __init__(self, address: str) -> None:
        self.address = address
        settings = ClientSettings(
            request_timeout_ms=_TIMEOUT_MS, connect_timeout_ms=_TIMEOUT_MS, backoff=_BACKOFF, instance_name="failover"
        )
        self.client = Client(settings)

    async def __aenter__(self) -> Self:
        await self.client.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.close()

    async def status(self) -> BrokerStatus:
        link = self.client.brokers.link(self.address)
        response = await self.client.ask(link, RequestCode.QUERY_MEMBER)
        try:
            return msgspec.json.decode(response.body, type=BrokerStatus)
        except msgspec.MsgspecError as error:
            raise RemoteProtocolError(f"{self.address} does not say what it is: {error}") from error

    async def grant(self, record: LeaseRecord, until_s: float, required: tuple[str, ...]) -> None:
        control = Control(
            action=MemberAction.GRANT,
            number=record.number,
            until_s=until_s,
            required=required,
            renewals=record.renewals,
            away=record.away,
        )
        await self._report(RequestCode.GRANT_MEMBER, control)

    async def promote(self, number: int, waits: bool | None) -> None:
        control = Control(action=MemberAction.PROMOTE, number=number, waits=waits)
        await self._report(RequestCode.CONTROL_MEMBER, control)

    async def follow(self, master: str, number: int, decided: int = 0) -> None:
        control = Control(action=MemberAction.FOLLOW, number=number, master=master, decided=decided)
        await self._report(RequestCode.CONTROL_MEMBER, control)

    async def hold(self) -> None:
        await self._report(RequestCode.CONTROL_MEMBER, Control(action=MemberAction.HOLD))

    async def release(self) -> None:
        await self._report(RequestCode.CONTROL_MEMBER, Control(action=MemberAction.RELEASE))

    async def note(self, waiting: str, members: tuple[str, ...], newest: int = 0) -> None:
        control = Control(action=MemberAction.NOTE, waiting=waiting, members=members, newest=newest)
        await self._report(RequestCode.CONTROL_MEMBER, control)

    async def _report(self, code: RequestCode, control: Control) -> None:
        link = self.client.brokers.link(self.address)
        await self.client.ask(link, code, None, msgspec.json.encode(control))
