"""Options of Spark's Kafka source and sink: what they are called here, for people who come from there."""

from __future__ import annotations

from typing import Final

PAGE: Final = "docs/how-to/spark.md, Beside Spark's Kafka source"
_ONE_FOR_ONE: Final = {
    "kafka.bootstrap.servers": "nameserver",
    "bootstrap.servers": "nameserver",
    "subscribe": "topic",
    "subscribepattern": "topicPattern",
    "groupidprefix": "group",
    "kafka.group.id": "group",
    "group.id": "group",
    "includeheaders": "properties",
    "kafkaconsumer.polltimeoutms": "requestTimeout",
    "fetchoffset.numretries": "retryTimeout",
    "fetchoffset.retryintervalms": "retryTimeout",
    "partition.metadata.cache.ttl.ms": "discoveryInterval",
    "kafka.max.poll.records": "pullBatchSize",
    "kafka.security.protocol": "tls",
}
_IN_WORDS: Final = {
    "assign": "a stream reads all queues of a topic; a batch leaves out those whose start and end are the same offset",
    "kafka.isolation.level": "messages of open transactions are never seen, so there is nothing to choose",
}
_PREFIXES: Final = (
    ("kafka.sasl.", "requests are signed: use accessKey and secretKey"),
    ("kafka.ssl.", "use tlsCa, tlsCertificate and tlsKey, files in PEM"),
    ("kafka.fetch.", "use pullBatchSize and gatherBytes"),
    ("kafka.", "options of Kafka's clients mean nothing here"),
)


def counterpart(name: str) -> str:
    """What Kafka's option is called here; empty when it has no counterpart."""
    return _ONE_FOR_ONE.get(name.lower(), "")


def kafka_hint(name: str) -> str:
    """What to write instead of an option of Kafka's; empty when it is none of those."""
    lower = name.lower()
    if found := counterpart(lower):
        return f"that is Kafka's name; here it is {found} ({PAGE})"
    words = _IN_WORDS.get(lower) or next((text for start, text in _PREFIXES if lower.startswith(start)), "")
    return f"that is an option of Kafka's: {words} ({PAGE})" if words else ""
