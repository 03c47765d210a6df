"""Name watch: does the name of this broker still lead to this broker?

A name server gives a name and id to one address. Whoever registers them with a higher state version takes the route,
and the broker that had it hears "success" all the same. So the broker asks for the route of the topic that bears its
own name; when that shows another address it says so, asks for the version that the other one is registered with, and
outranks it. Without access control that is all that can be done: the operator has to find the other one.
"""

from __future__ import annotations

import logging
from typing import Final

from pyromq.broker.base.settings import BrokerSettings
from pyromq.errors import MQError
from pyromq.model.topic import DataVersion
from pyromq.net.link import Link
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.nameserver import BrokerIdentityHeader, GetRouteHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.route import decode_route

logger = logging.getLogger(__name__)

STATE_VERSION_MAX: Final = 1 << 62  # a broker does not go beyond it: name servers take 64 bits
_TIMEOUT_MS: Final = 3_000


class NameWatch:
    """Owns the state version that registrations carry at least."""

    def __init__(self, settings: BrokerSettings, address: str) -> None:
        self.state_version = 0
        self.taken = 0  # how often another address was found under our name
        self.taken_by = ""  # the last one
        self._settings = settings
        self._address = address

    def report(self) -> dict[str, object]:
        """Conflicts over the broker's name, in the names of run-time information."""
        return {"nameTaken": self.taken, "nameTakenBy": self.taken_by}

    async def is_taken(self, nameserver: str, link: Link) -> bool:
        """Whether another address has our name and id; then the next registration outranks it, if that is possible."""
        try:
            holder = await self._holder(link)
            if holder is None or holder == self._address:
                return False
            known = await self._version_of(holder, link)
        except MQError as error:
            logger.info("cannot tell who has the name of this broker: nameserver=%s reason=%s", nameserver, error)
            return False
        self.taken += 1
        self.taken_by = holder
        if known >= self.state_version:
            self.state_version = min(known + 1, STATE_VERSION_MAX)
        logger.error(
            "another process is registered under the name of this broker, clients are led there: nameserver=%s "
            "broker=%s id=%d holder=%s its_state_version=%d; registering again with state_version=%d. Stop the other "
            "one, or give it another name",
            *(nameserver, self._settings.name, self._settings.broker_id, holder, known, self.state_version),
        )
        return True

    async def _holder(self, link: Link) -> str | None:
        """The address under our name and id; None when the name server knows none."""
        header = GetRouteHeader(topic=self._settings.name)
        response = await link.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout_ms=_TIMEOUT_MS)
        if response.code != ResponseCode.SUCCESS or not response.body:
            return None
        broker = decode_route(response.body).broker(self._settings.name)
        return broker.broker_addrs.get(self._settings.broker_id) if broker else None

    async def _version_of(self, holder: str, link: Link) -> int:
        header = BrokerIdentityHeader(
            broker_name=self._settings.name,
            broker_addr=holder,
            cluster_name=self._settings.cluster,
            broker_id=self._settings.broker_id,
        )
        body = java_json.dumps(DataVersion())
        response = await link.request(RequestCode.QUERY_DATA_VERSION, header, body, timeout_ms=_TIMEOUT_MS)
        if response.code != ResponseCode.SUCCESS or not response.body:
            return 0
        return java_json.decode(response.body, DataVersion).state_version
