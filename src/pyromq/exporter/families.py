"""Facts of brokers as families; no I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from pyromq.errors import MQError
from pyromq.exporter.facts import BrokerFacts
from pyromq.metrics import broker_table
from pyromq.metrics import exporter_table as table
from pyromq.metrics.declared import Metric
from pyromq.metrics.samples import Family, Labels, ServerSamples, Value
from pyromq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from pyromq.model.system_names import is_system_group, is_system_topic
from pyromq.operate.brokers import first_number, row_of
from pyromq.wire.json.heartbeat import ConsumeType

_STORAGE: Final = ("local", "disk")
_WATERMARKS: Final = {
    "send": "sendThreadPoolQueueSize",
    "pull": "pullThreadPoolQueueSize",
    "query_message": "queryThreadPoolQueueSize",
    "ack": "ackThreadPoolQueueSize",
}


def parts_of(brokers: Iterable[BrokerFacts], now_ms: int, labels: Mapping[str, str]) -> list[ServerSamples]:
    """A part for each broker that answered; RocketMQ 5's names beside those of the exporter for 4.x."""
    found = []
    for facts in brokers:
        common = {**labels, "cluster": facts.process.cluster, "node_type": "broker", "node_id": facts.name}
        families = [_one(table.BROKER_UP, int(facts.is_up), (facts.address, facts.name))]
        if facts.is_up:
            families += [*_runtime(facts), *_topics(facts), *_groups(facts, now_ms), *_members(facts)]
        found.append(ServerSamples(common, [family for family in families if family.samples]))
    return found


def _one(metric: Metric, value: Value, labels: Labels = ()) -> Family:
    return Family(metric, [(labels, value)])


# --- the broker itself ---


def _runtime(facts: BrokerFacts) -> list[Family]:
    told, row, labels = facts.process.told, row_of(facts.process), (facts.address, facts.name)
    assert not isinstance(told, MQError)  # it is up
    found = [
        _one(table.BROKER_TPS, row.put_rate, labels),
        _one(table.BROKER_QPS, row.get_rate, labels),
        _one(table.DISK_RATIO, row.disk_percent / 100, labels),
    ]
    if facts.tables is not None:
        found.append(_one(broker_table.TOPIC_NUMBER, len(facts.tables.topics)))
        found.append(_one(broker_table.GROUP_NUMBER, len(facts.tables.groups)))
    if "commitLogMaxOffset" in told:
        size = row.log_end - int(first_number(told.get("commitLogMinOffset", "")))
        found.append(_one(broker_table.STORAGE_SIZE, size, _STORAGE))
    for metric, key in (
        (broker_table.FLUSH_BEHIND, "remainHowManyDataToFlush"),
        (broker_table.DISPATCH_BEHIND, "dispatchBehindBytes"),
    ):
        if key in told:
            found.append(_one(metric, int(first_number(told[key])), _STORAGE))
    waiting = [((name,), int(first_number(told[key]))) for name, key in _WATERMARKS.items() if key in told]
    return [*found, Family(broker_table.PROCESSOR_WATERMARK, waiting)]


# --- topics ---


def _topics(facts: BrokerFacts) -> list[Family]:
    ends: list[tuple[Labels, Value]] = []
    offsets: list[tuple[Labels, Value]] = []
    dead: list[tuple[Labels, Value]] = []
    for topic, stats in facts.topics.items():
        queues = stats.offset_table
        used = sorted((queue, held.max_offset) for queue, held in queues.items() if held.max_offset)
        ends += [((topic, str(queue.number)), end) for queue, end in used]
        offsets.append(((facts.name, topic), sum(held.max_offset for held in queues.values())))
        if topic.startswith(DEAD_LETTER_PREFIX):
            count = sum(held.max_offset - held.min_offset for held in queues.values())
            dead.append(((topic.removeprefix(DEAD_LETTER_PREFIX), topic), count))
    rates: list[tuple[Labels, Value]] = [((facts.name, topic), rate) for topic, rate in facts.topic_rates.items()]
    return [
        Family(broker_table.QUEUE_MESSAGES, ends),
        Family(table.PRODUCER_OFFSET, offsets),
        Family(table.PRODUCER_TPS, rates),
        Family(table.GROUP_DLQ_DIFF, dead),
    ]


# --- groups ---


def _groups(facts: BrokerFacts, now_ms: int) -> list[Family]:
    samples: defaultdict[str, list[tuple[Labels, Value]]] = defaultdict(list)
    for each in facts.tables.progresses() if facts.tables is not None else ():
        queues, lag = each.queues.values(), each.lag
        pulled = [min(max(queue.pull_offset, queue.consumer_offset), queue.broker_offset) for queue in queues]
        in_flight = sum(max(0, to - queue.consumer_offset) for to, queue in zip(pulled, queues, strict=True))
        behind_ms = [
            now_ms - queue.last_timestamp
            for queue in queues
            if queue.last_timestamp > 0 and queue.broker_offset > queue.consumer_offset
        ]
        is_retry = each.topic.startswith(RETRY_PREFIX)
        labels = each.group, each.topic, _text(is_retry), _text(is_system_topic(each.topic))
        samples["messages"].append((labels, lag))
        samples["latency"].append((labels, max(0, *behind_ms, 0)))
        samples["in_flight"].append((labels, min(in_flight, lag)))
        samples["ready"].append((labels, lag - min(in_flight, lag)))
        samples["retry" if is_retry else "diff"].append(((each.group, each.topic), lag))
        own = facts.name, each.topic, each.group
        samples["rate"].append((own, each.rate))
        samples["offset"].append((own, sum(queue.consumer_offset for queue in queues)))
    return [
        Family(broker_table.LAG_MESSAGES, samples["messages"]),
        Family(broker_table.LAG_LATENCY, samples["latency"]),
        Family(broker_table.INFLIGHT_MESSAGES, samples["in_flight"]),
        Family(broker_table.READY_MESSAGES, samples["ready"]),
        Family(table.GROUP_DIFF, samples["diff"]),
        Family(table.GROUP_RETRY_DIFF, samples["retry"]),
        Family(table.CONSUMER_TPS, samples["rate"]),
        Family(table.CONSUMER_OFFSET, samples["offset"]),
    ]


# --- members ---


def _members(facts: BrokerFacts) -> list[Family]:
    connected, odd = Counter[Labels](), list[tuple[Labels, Value]]()
    for group, told in facts.members.items():
        mode = "pull" if told.consume_type is ConsumeType.CONSUME_ACTIVELY else "push"
        for member in told.connection_set:
            key = group, member.language.lower(), str(member.version), mode, "remoting", _text(is_system_group(group))
            connected[key] += 1
        if told.disagreeing_client_ids:
            odd.append(((group,), len(told.disagreeing_client_ids)))
    samples: defaultdict[Metric, list[tuple[Labels, Value]]] = defaultdict(list)
    for (group, client_id), report in facts.reports.items():
        for topic, rates in report.rates.items():
            labels = group, topic, client_id
            samples[table.CONSUME_RT].append((labels, rates.consume_rt))
            samples[table.CONSUME_OK_TPS].append((labels, rates.consume_ok_tps))
            samples[table.CONSUME_FAIL_TPS].append((labels, rates.consume_failed_tps))
            samples[table.CONSUME_FAIL_COUNT].append((labels, rates.consume_failed_messages))
            samples[table.PULL_RT].append((labels, rates.pull_rt))
            samples[table.PULL_TPS].append((labels, rates.pull_tps))
        samples[table.CLIENT_FLOW_CONTROL] += [((group, client_id, case), count) for case, count in report.flow.items()]
        if ages := [head.age_ms for head in report.heads]:
            samples[table.CLIENT_HEAD_AGE].append(((group, client_id), max(ages) / 1000))
    return [
        Family(broker_table.CONSUMER_CONNECTIONS, list(connected.items())),
        Family(broker_table.SUBSCRIPTION_MISMATCHES, odd),
        *(Family(metric, found) for metric, found in samples.items()),
    ]


def _text(flag: bool) -> str:
    return "true" if flag else "false"
