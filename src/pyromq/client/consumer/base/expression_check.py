"""Expression check (46): whether brokers can serve an SQL92 expression, asked before anything is pulled."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pyromq.client.core.client import Client
from pyromq.errors import NoRouteError, TransportError
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import java_json
from pyromq.wire.json.heartbeat import SQL_EXPRESSION, CheckClient, Subscription

logger = logging.getLogger(__name__)


class ExpressionCheck:
    """For one group. A broker that cannot be asked now cannot refuse: its response to a pull will say."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group

    async def require(self, subscriptions: Iterable[Subscription]) -> None:
        """Let brokers check the SQL92 expressions. Raises ExpressionRefusedError, or another BrokerError when a broker
        does not filter by SQL92 at all.
        """
        for subscription in subscriptions:
            if subscription.expression_type == SQL_EXPRESSION:
                for address in await self._brokers_of(subscription.topic):
                    await self._ask(address, subscription)

    async def _brokers_of(self, topic: str) -> list[str]:
        try:
            route = await self._client.routes.get(topic, timeout_ms=self._client.settings.request_timeout_ms)
        except (NoRouteError, TransportError) as error:
            logger.info("expression not checked: topic=%s error=%s", topic, error)
            return []
        return [address for broker in route.broker_datas if (address := broker.readable_addr())]

    async def _ask(self, address: str, subscription: Subscription) -> None:
        question = CheckClient(client_id=self._client.id, group=self._group, subscription_data=subscription)
        try:
            link, body = self._client.brokers.link(address), java_json.dumps(question)
            await self._client.ask(link, RequestCode.CHECK_CLIENT_CONFIG, None, body)
        except TransportError as error:
            logger.info("expression not checked: broker=%s error=%s", address, error)
