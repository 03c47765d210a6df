"""Alert rules for Prometheus, over metrics of the table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pyromq.metrics import broker_table as broker
from pyromq.metrics import exporter_table as exporter
from pyromq.metrics import process_table as process
from pyromq.metrics.declared import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """``condition`` has a ``%s`` for the name of ``metric``."""

    name: str
    metric: Metric
    condition: str
    lasting: str  # how long it must hold
    severity: str  # page: somebody must look now; ticket: soon
    summary: str
    advice: str

    @property
    def expression(self) -> str:
        return self.condition % self.metric.text_name


ALERTS: Final = (
    Alert(
        name="PyroMQStoreReadOnly",
        metric=broker.WRITABLE,
        condition="%s == 0",
        lasting="1m",
        severity="page",
        summary="{{ $labels.node_id }} takes no messages",
        advice="The disk is full, or was not trusted any more after a failed write: pyromq health says which.",
    ),
    Alert(
        name="PyroMQDiskNearlyFull",
        metric=broker.DISK_USED,
        condition="%s > 0.8",
        lasting="10m",
        severity="page",
        summary="the disk of {{ $labels.node_id }} is {{ $value | humanizePercentage }} full",
        advice="At 85 % messages are deleted before their time, at 90 % none are taken.",
    ),
    Alert(
        name="PyroMQUnreadDeleted",
        metric=broker.UNREAD_DELETED,
        condition="increase(%s[15m]) > 0",
        lasting="0m",
        severity="page",
        summary="{{ $labels.node_id }} deleted messages that groups had not read",
        advice="Its log names the groups; keep messages longer (fileReservedTime), or give it a larger disk.",
    ),
    Alert(
        name="PyroMQLogDamaged",
        metric=broker.LOG_DAMAGED,
        condition="%s > 0",
        lasting="5m",
        severity="page",
        summary="{{ $labels.node_id }} has a log that its disk has changed",
        advice="A replica mends itself from its master. A master hands over or is replaced: pyromq store check --live.",
    ),
    Alert(
        name="PyroMQNoReplicaInSync",
        metric=broker.REPLICAS_IN_SYNC,
        condition="%s == 0",
        lasting="2m",
        severity="page",
        summary="no replica of {{ $labels.node_id }} is in sync",
        advice="There is one copy of what is sent now: pyromq cluster replication says what the replicas do.",
    ),
    Alert(
        name="PyroMQReplicaBehind",
        metric=broker.REPLICA_BEHIND,
        condition="%s > 67108864",
        lasting="5m",
        severity="ticket",
        summary="replica {{ $labels.replica }} of {{ $labels.node_id }} is {{ $value | humanize1024 }}B behind",
        advice="Its disk or the network does not keep up; a failover would wait for it, or lose that much.",
    ),
    Alert(
        name="PyroMQReplicaNotFollowing",
        metric=broker.FOLLOWING,
        condition="%s == 0",
        lasting="2m",
        severity="page",
        summary="{{ $labels.node_id }} does not follow its master: {{ $labels.state }}",
        advice="pyromq cluster replication and its log say why; a refused one needs a person.",
    ),
    Alert(
        name="PyroMQGroupBehind",
        metric=broker.LAG_LATENCY,
        condition='%s{is_system="false"} > 600000',
        lasting="10m",
        severity="ticket",
        summary="{{ $labels.consumer_group }} is more than ten minutes behind in {{ $labels.topic }}",
        advice="pyromq group describe shows the message that it stands at, and who has it.",
    ),
    Alert(
        name="PyroMQMessageBlocks",
        metric=broker.BLOCKING_AGE,
        condition="%s > 900",
        lasting="5m",
        severity="ticket",
        summary="one message has held up {{ $labels.consumer_group }} in {{ $labels.topic }} for 15 minutes",
        advice="pyromq group describe shows it with the stack of its listener; pyromq group park moves it away.",
    ),
    Alert(
        name="PyroMQDeadLetters",
        metric=broker.SEND_TO_DLQ,
        condition="increase(%s[15m]) > 0",
        lasting="0m",
        severity="ticket",
        summary="new dead letters of {{ $labels.consumer_group }} from {{ $labels.topic }}",
        advice="pyromq dlq ls shows them, pyromq dlq redrive sends them again.",
    ),
    Alert(
        name="PyroMQSubscriptionsDiffer",
        metric=broker.SUBSCRIPTION_MISMATCHES,
        condition="%s > 0",
        lasting="5m",
        severity="page",
        summary="members of {{ $labels.consumer_group }} subscribe to different things",
        advice="Messages get lost to them: give all members of a group the same subscriptions.",
    ),
    Alert(
        name="PyroMQFlowControl",
        metric=broker.FLOW_CONTROL,
        condition="rate(%s[5m]) > 0",
        lasting="5m",
        severity="ticket",
        summary="{{ $labels.node_id }} refuses sends ({{ $labels.case }}): its disk does not keep up",
        advice="Look at pyromq_fsync_seconds, and at who else uses the disk.",
    ),
    Alert(
        name="PyroMQSlowFlush",
        metric=broker.FSYNC,
        condition="histogram_quantile(0.99, sum by (le, cluster, node_id) (rate(%s_bucket[5m]))) > 0.25",
        lasting="10m",
        severity="ticket",
        summary="flushes of {{ $labels.node_id }} take {{ $value | humanizeDuration }}",
        advice="Senders wait that long for their acknowledgement.",
    ),
    Alert(
        name="PyroMQLoopStalls",
        metric=process.LOOP_STALLS,
        condition="increase(%s[15m]) > 3",
        lasting="0m",
        severity="ticket",
        summary="{{ $labels.node_id }} served nobody for more than 100 ms, several times",
        advice="Its log names the requests that did it.",
    ),
    Alert(
        name="PyroMQNotRegistered",
        metric=broker.NAMESERVERS,
        condition='%s{state="missing"} > 0',
        lasting="5m",
        severity="ticket",
        summary="{{ $labels.node_id }} is not registered with all of its name servers",
        advice="Clients that ask those do not find it.",
    ),
    Alert(
        name="PyroMQNameTaken",
        metric=broker.NAME_TAKEN,
        condition="increase(%s[15m]) > 0",
        lasting="0m",
        severity="page",
        summary="another process has registered as {{ $labels.node_id }}",
        advice="Clients are led to it: stop it, or give it another name.",
    ),
    Alert(
        name="PyroMQLabelBudget",
        metric=process.OVERFLOW_SERIES,
        condition="%s > 0",
        lasting="15m",
        severity="ticket",
        summary="{{ $labels.metric }} of {{ $labels.node_id }} has more label sets than metrics.series_max",
        advice="The others are added up in the series _overflow; raise the setting, or have fewer topics and groups.",
    ),
    Alert(
        name="PyroMQBrokerDown",
        metric=exporter.BROKER_UP,
        condition="%s == 0",
        lasting="2m",
        severity="page",
        summary="{{ $labels.broker }} does not answer the exporter",
        advice="Its other series are missing until it does.",
    ),
)


def rules_text() -> str:
    """A rule file (YAML) of Prometheus."""
    lines = [
        "# Made from release/monitoring/alerts.py by deploy/generate.py",
        "groups:",
        "  - name: pyromq",
        "    rules:",
    ]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {_quoted(alert.expression)}",
            f"        for: {alert.lasting}",
            f"        labels: {{severity: {alert.severity}}}",
            "        annotations:",
            f"          summary: {_quoted(alert.summary)}",
            f"          description: {_quoted(alert.advice)}",
        ]
    return "\n".join(lines) + "\n"


def names_in(expression: str) -> set[str]:
    """Names of metrics that an expression asks for."""
    return set(re.findall(r"\b(?:rocketmq|pyromq)_\w+", expression))


def _quoted(text: str) -> str:
    """A text of YAML in single quotes."""
    return "'" + text.replace("'", "''") + "'"
