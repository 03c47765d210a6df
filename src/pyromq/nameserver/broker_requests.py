"""What brokers tell a name server about themselves."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from itertools import islice
from typing import Any, Final

from pyromq.errors import quoted
from pyromq.model.topic import DataVersion
from pyromq.nameserver.errors import RegistrationRefusedError
from pyromq.nameserver.kv_config import ORDER_NAMESPACE
from pyromq.nameserver.members import BrokerEndpoint, BrokerProcess, Outranked, Registered, Registration
from pyromq.nameserver.state import NameServerState, Response, small_body
from pyromq.wire.headers.nameserver import (
    BrokerHeartbeatHeader,
    BrokerIdentityHeader,
    BrokerMemberGroupHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerHeader,
    RegisterBrokerResponseHeader,
)
from pyromq.wire.headers.shared import TopicHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.bodies import KeyValues, encode
from pyromq.wire.json.registration import BrokerRegistration, decode_registration
from pyromq.wire.json.route import decode_route
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_LEFT_OUT_SHOWN: Final = 5


def register(state: NameServerState, request: Received[RegisterBrokerHeader], connection: Hashable) -> Response:
    """103: a broker with its topics; the response tells replicas their master, and all brokers the ordered topics."""
    unreadable: dict[str, str] = {}
    registration = _registration(request.header, _registration_body(state, request, unreadable), unreadable)
    outcome = state.table.register(registration, connection)
    _log(registration.member, outcome)
    if isinstance(outcome, Outranked):
        text = f"outranked: {outcome.holder} holds this name and id with state version {outcome.rank}"
        return Response(body=_ordered_topics(state), remark=text)
    header = RegisterBrokerResponseHeader(ha_server_addr=outcome.master_ha_address, master_addr=outcome.master_address)
    remark = _left_out_text(outcome.left_out) if outcome.left_out else None
    return Response(header=header, body=_ordered_topics(state), remark=remark)


def _left_out_text(left_out: Mapping[str, str]) -> str:
    """What was left out and why, the first few of it."""
    shown = "; ".join(f"{quoted(topic)}: {reason}" for topic, reason in islice(left_out.items(), _LEFT_OUT_SHOWN))
    more = "; …" if len(left_out) > _LEFT_OUT_SHOWN else ""
    return f"topics left out, the others are registered: {len(left_out)} ({shown}{more})"


def _log(member: BrokerProcess, outcome: Registered | Outranked) -> None:
    facts = (member.cluster, member.broker, member.broker_id, member.address)
    if isinstance(outcome, Outranked):
        text = "registration outranked: cluster=%r broker=%r id=%d address=%r holder=%r state_version=%d"
        logger.warning(text, *facts, outcome.holder, outcome.rank)
    elif outcome.displaced is not None:
        text = "broker displaced: cluster=%r broker=%r id=%d address=%r displaced=%r"
        logger.warning(text, *facts, outcome.displaced)
    elif outcome.is_new:
        logger.info("broker registered: cluster=%r broker=%r id=%d address=%r", *facts)
    if isinstance(outcome, Registered) and not outcome.left_out.keys() <= outcome.left_out_before:
        logger.warning("%s: cluster=%r broker=%r id=%d address=%r", _left_out_text(outcome.left_out), *facts)


def _registration_body(
    state: NameServerState, request: Received[RegisterBrokerHeader], unreadable: dict[str, str]
) -> BrokerRegistration:
    header, limits = request.header, state.limits
    if len(request.body) > limits.registration_bytes_max:
        raise RegistrationRefusedError(
            f"a registration of {len(request.body)} bytes, at most {limits.registration_bytes_max} are allowed"
        )
    if not request.body:
        return BrokerRegistration()
    return decode_registration(
        request.body,
        compressed=header.compressed,
        version=request.version,
        checksum=header.body_crc32,
        inflated_bytes_max=limits.inflated_bytes_max,
        left_out=unreadable,
    )


def _registration(
    header: RegisterBrokerHeader, body: BrokerRegistration, unreadable: Mapping[str, str]
) -> Registration:
    return Registration(
        member=BrokerProcess(
            cluster=header.cluster_name,
            broker=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_addr,
        ),
        ha_address=header.ha_server_addr,
        data_version=body.topics.data_version,
        topics={config.topic_name: config for config in body.topics.topic_config_table.values()},
        acting_master=header.enable_acting_master,
        silence_ms_max=header.heartbeat_timeout_millis,
        zone=header.zone_name,
        filter_servers=tuple(body.filter_server_list),
        unreadable=unreadable,
    )


def _ordered_topics(state: NameServerState) -> bytes:
    if not state.settings.return_order_topic_config:
        return b""
    topics = state.kv.namespace(ORDER_NAMESPACE)
    return b"" if topics is None else encode(KeyValues(table=dict(topics)))


def unregister(state: NameServerState, request: Received[BrokerIdentityHeader], _: Hashable) -> Response:
    """Handle request 104 (UNREGISTER_BROKER)."""
    header = request.header
    if state.table.unregister(header.broker_name, header.broker_addr):
        logger.info("broker unregistered: broker=%r address=%r", header.broker_name, header.broker_addr)
    return Response()


def query_data_version(state: NameServerState, request: Received[BrokerIdentityHeader], _: Hashable) -> Response:
    """322: must the broker send its topics again?"""
    version = java_json.decode(small_body(state, request) or b"{}", DataVersion)
    check = state.table.compare_version(
        BrokerEndpoint(request.header.cluster_name, request.header.broker_addr), version
    )
    return Response(
        header=QueryDataVersionResponseHeader(changed=check.changed),
        body=b"" if check.known is None else java_json.dumps(check.known),
    )


def heartbeat(state: NameServerState, request: Received[BrokerHeartbeatHeader], _: Hashable) -> Response:
    """Handle request 904 (BROKER_HEARTBEAT)."""
    state.table.refresh(BrokerEndpoint(request.header.cluster_name, request.header.broker_addr))
    return Response()


def register_topic(state: NameServerState, request: Received[TopicHeader], _: Hashable) -> Response:
    """217: queues of one topic, on brokers that are known."""
    body = small_body(state, request)
    if body:
        state.table.register_topic(request.header.topic, decode_route(body).queue_datas)
    return Response()


def member_group(state: NameServerState, request: Received[BrokerMemberGroupHeader], _: Hashable) -> Response:
    """901: the other addresses of a broker's name."""
    header = request.header
    group: dict[str, Any] = {
        "brokerAddrs": state.table.member_addresses(header.broker_name),
        "brokerName": header.broker_name,
        "cluster": header.cluster_name,
    }
    return Response(body=java_json.dumps({"brokerMemberGroup": group}))
