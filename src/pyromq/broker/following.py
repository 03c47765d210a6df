"""Follow mode: a copy of a running broker, Apache's or ours, that the broker takes no notice of.

    ask MASTER for its settings ─▶ a replica with the same name and file sizes, registered nowhere, silent
                                    └ take-over: the master is gone ─▶ a master with the same bytes and offsets

*Silent* means that every report repeats the first one. A master sends by what it has sent, and counts by what is
reported, so it goes on sending and never counts the copy as an acknowledgement.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pyromq.broker.base.config_keys import KEYS
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.signed_link import signed
from pyromq.broker.broker import Broker
from pyromq.clock import SystemClock
from pyromq.errors import ConfigError, RemoteProtocolError, quoted
from pyromq.net import Address, open_connection
from pyromq.replication.follower import Following
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings, InnerCredentials
from pyromq.setting_keys import parse_lines
from pyromq.store.settings import StoreSettings
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.json import bodies, java_json

logger = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 10_000
_LOOK_S: Final = 0.2
_GONE_S: Final = 3.0  # a master that cannot be reached for so long has stopped
_ALIKE: Final = (
    "fileReservedTime",
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "mappedFileSizeTimerLog",
    "maxHashSlotNum",
    "maxIndexNum",
    "maxMessageSize",
    "messageDelayLevel",
)
COPY_ID: Final = 255  # of the copy, while it is one; it is registered nowhere


async def settings_of_a_copy(
    master: Address, *, host: str, port: int, signs_as: InnerCredentials | None = None
) -> BrokerSettings:
    """What a copy of that broker needs: its name, the sizes of its files. Raises MQError.

    ``signs_as``: a super user there, where the broker has access control. Such a copy is not read by clients.
    """
    fields = signed(signs_as) if signs_as is not None else None
    connection = await open_connection(master, clock=SystemClock())
    try:
        answer = await connection.request(RequestCode.GET_BROKER_CONFIG, fields, timeout_ms=_TIMEOUT_MS)
        facts = await connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, fields, timeout_ms=_TIMEOUT_MS)
    finally:
        connection.close()
        await connection.wait_closed()
    if answer.code != ResponseCode.SUCCESS or facts.code != ResponseCode.SUCCESS:
        raise RemoteProtocolError(f"{master} does not tell its settings: {quoted(answer.remark or facts.remark or '')}")
    reported = dict(parse_lines(answer.body.replace(b"\r", b"")))
    runtime = java_json.decode(facts.body, bodies.KeyValues).table
    if reported.get("brokerRole") == "SLAVE" or runtime.get("replicationRole") == Role.ALONE.value:
        raise ConfigError(
            f"{master} has no port for replicas: it is a replica, or has no role; follow its master, or start it "
            "with one (--role async-master)"
        )
    ha_port = int(reported.get("haListenPort") or 0) or master.port + 1
    return BrokerSettings(
        cluster=reported.get("brokerClusterName", "DefaultCluster"),
        name=reported.get("brokerName", "broker-a"),
        broker_id=COPY_ID,
        host=host,
        port=port,
        vip_port=False,
        access=AccessSettings(inner_credentials=_secret(signs_as)),
        store=_store_like(reported),
        replication=ReplicationSettings(
            role=Role.REPLICA,
            silent=True,
            replica_reads=not _is_guarded(reported),  # nobody is asked who it is here
            master_address=str(master),
            master_replication_address=str(runtime.get("replicationAddress") or Address(master.host, ha_port)),
        ),
    )


def _secret(credentials: InnerCredentials | None) -> Secret:
    return Secret(msgspec.json.encode(credentials).decode()) if credentials is not None else Secret()


def _is_guarded(facts: Mapping[str, str]) -> bool:
    return any(facts.get(name) == "true" for name in ("aclEnable", "authenticationEnabled"))


def _store_like(facts: Mapping[str, str]) -> StoreSettings:
    """What the files of a broker depend on, and messages at its delay levels. Raises ConfigError."""
    values = {
        KEYS[name].field.removeprefix("store."): KEYS[name].parse(facts[name]) for name in _ALIKE if name in facts
    }
    return StoreSettings(**values)


async def caught_up(broker: Broker) -> None:
    """Until the copy has been as far as its master, with the master's tables."""
    follower, metadata = broker.parts.replication.follower, broker.parts.replication.metadata
    assert follower is not None and metadata is not None
    await follower.attached.wait()
    rounds = metadata.rounds
    while metadata.rounds <= rounds:  # noqa: ASYNC110, a round is some seconds away
        await asyncio.sleep(_LOOK_S)


async def master_gone(broker: Broker) -> None:
    """Until the master has not been reachable for some seconds. Raises ConfigError when the copy must not follow it."""
    follower = broker.parts.replication.follower
    assert follower is not None
    since: float | None = None
    loop = asyncio.get_running_loop()
    while since is None or loop.time() - since < _GONE_S:
        if follower.state is Following.REFUSED:
            raise ConfigError(f"the copy does not take over: {follower.reason}")
        if follower.attached.is_set():
            since = None
        elif since is None:
            since = loop.time()
        await asyncio.sleep(_LOOK_S)


def check_take_over(broker: Broker) -> None:
    """Check that a copy may take over. Raises ConfigError when it would be open to everybody, which its master
    is not.
    """
    if not broker.settings.replication.replica_reads:
        raise ConfigError(
            "the broker that is followed has access control, and its users do not come along: leave --take-over away, "
            "stop both when the copy has caught up, and start a broker on its folder with users of its own"
        )


async def take_over(broker: Broker, nameservers: Sequence[str]) -> None:
    """Be the master from now on: same bytes, same offsets, registered under the master's name. Raises ConfigError."""
    check_take_over(broker)
    broker.settings.nameservers = tuple(nameservers)
    await broker.change_role(Role.ASYNC_MASTER, 0)
