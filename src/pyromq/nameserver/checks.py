"""What a broker may say about itself: checked before the table is touched.

Names of clusters and brokers are topics too and are often host names, so more characters are allowed than in names
that clients choose. An address must survive Go's way of reading routes, which cuts them at commas and quotes.
"""

from __future__ import annotations

import re

from pyromq.errors import quoted
from pyromq.model.route import QUEUE_NUMS_MAX, QueueData
from pyromq.model.topic import TopicConfig
from pyromq.nameserver.errors import LimitError, RegistrationRefusedError
from pyromq.nameserver.members import Registration
from pyromq.nameserver.settings import NameServerLimits

_BROKER_ID_MAX = 2**63 - 1
_PERM_MAX = 255
_address_parts = re.compile(r'[^\s,;"\\{}\x00-\x1f\x7f]+:([0-9]{1,5})').fullmatch


def check_registration(registration: Registration, limits: NameServerLimits) -> dict[str, str]:
    """The topics that must be left out, with the reason. Raises RegistrationRefusedError for the broker itself."""
    try:
        _check_member(registration, limits)
        _check_count(registration, limits)
    except RegistrationRefusedError:
        raise
    except LimitError as error:
        raise RegistrationRefusedError(str(error)) from error
    return {**registration.unreadable, **_unfit_topics(registration, limits)}


def check_name(kind: str, name: str, limits: NameServerLimits) -> None:
    """Check the length and characters of a name. Raises LimitError."""
    if not name.strip() or not name.isprintable():
        raise LimitError(f"{kind} {quoted(name)} is blank or has characters that cannot be printed")
    _check_length(kind, name, limits)


def check_queues(topic: str, data: QueueData | TopicConfig, limits: NameServerLimits) -> None:
    """Check that the queue counts of a topic are within the limits. Raises LimitError."""
    if _is_plain(topic, data, limits):
        return
    check_name("topic", topic, limits)
    for number in (data.read_queue_nums, data.write_queue_nums):
        if not 0 <= number <= QUEUE_NUMS_MAX:
            raise LimitError(f"topic {quoted(topic)} has {number} queues, 0 to {QUEUE_NUMS_MAX} are allowed")
    if not 0 <= data.perm <= _PERM_MAX:
        raise LimitError(f"topic {quoted(topic)} has permissions {data.perm}")
    if not -(2**31) <= data.topic_sys_flag < 2**31:
        raise LimitError(f"topic {quoted(topic)} has system flag {data.topic_sys_flag}")


def _is_plain(topic: str, data: QueueData | TopicConfig, limits: NameServerLimits) -> bool:
    """Nearly always, and known by one look: a broker registers thousands of topics at once."""
    return (
        topic.isascii()
        and topic.isprintable()
        and not topic.isspace()
        and 0 < len(topic) <= limits.name_characters_max
        and 0 <= data.read_queue_nums <= QUEUE_NUMS_MAX
        and 0 <= data.write_queue_nums <= QUEUE_NUMS_MAX
        and 0 <= data.perm <= _PERM_MAX
        and data.topic_sys_flag == 0
    )


def queue_data(registration: Registration, topic: str) -> QueueData:
    """A topic of a registration, as routes show it."""
    config = registration.topics[topic]
    return QueueData(
        broker_name=registration.member.broker,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_sys_flag=config.topic_sys_flag,
    )


def _check_member(registration: Registration, limits: NameServerLimits) -> None:
    member = registration.member
    check_name("cluster", member.cluster, limits)
    check_name("broker", member.broker, limits)
    if not 0 <= member.broker_id <= _BROKER_ID_MAX:
        raise LimitError(f"broker id {member.broker_id} is negative or too large")
    _check_address(member.address, limits)
    for kind, text in (("replication address", registration.ha_address), ("zone", registration.zone or "")):
        if text:
            check_name(kind, text, limits)
    if len(registration.filter_servers) > limits.filter_servers_max:
        raise LimitError(
            f"{len(registration.filter_servers)} filter servers, at most {limits.filter_servers_max} are allowed"
        )
    for server in registration.filter_servers:
        check_name("filter server", server, limits)


def _check_count(registration: Registration, limits: NameServerLimits) -> None:
    if len(registration.topics) > limits.topics_per_registration_max:
        raise LimitError(
            f"{len(registration.topics)} topics in one registration, at most {limits.topics_per_registration_max} are "
            "allowed: the broker has to send them in parts (enableSplitRegistration)"
        )


def _unfit_topics(registration: Registration, limits: NameServerLimits) -> dict[str, str]:
    unfit: dict[str, str] = {}
    for topic, config in registration.topics.items():
        try:
            check_queues(topic, config, limits)
        except LimitError as error:
            unfit[topic] = str(error)
    return unfit


def _check_address(address: str, limits: NameServerLimits) -> None:
    _check_length("address", address, limits)
    parts = _address_parts(address)
    if parts is None or not 0 < int(parts[1]) <= 65_535:
        raise LimitError(f"address {quoted(address)} is not of the form host:port")


def _check_length(kind: str, text: str, limits: NameServerLimits) -> None:
    if len(text) > limits.name_characters_max:
        raise LimitError(f"{kind} {quoted(text)} is longer than {limits.name_characters_max} characters")
