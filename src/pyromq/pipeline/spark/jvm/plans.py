"""Plans for the JVM lane: what a task reads, as JSON that ``PullPlan.java`` reads. Pure but for the environment.

{"ranges": [{"topic": "orders", "shown_topic": "orders", "broker": "broker-a", "queue": 0, "start": 5, "end": 9,
             "expression": "*", "kind": "TAG", "tags": []}],
 "cluster": {"nameservers": ["127.0.0.1:9876"], "credentials": null, "tls": null},
 "pulls": {"group": "reports", "count": 1024, "gather_bytes": 2097152, …}}
"""

from __future__ import annotations

from typing import Any

import msgspec
from pyspark.sql.datasource import InputPartition

from pyromq.model.namespaces import unwrap, wrap
from pyromq.pipeline.core.connections import client_settings
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.reading.plan import Partition
from pyromq.pipeline.reading.pulls import NO_GROUP, filter_for


class PlannedPart(InputPartition):
    """The plan of one task; Java takes ``value`` out of the pickled object."""

    value: str


def plan_text(options: SourceOptions, partition: Partition) -> str:
    """The plan of one task. Raises OptionError for what the lane cannot do."""
    ranges = [range_facts(options, each) for each in partition]
    plan = {"ranges": ranges, "cluster": cluster_facts(options), "pulls": pull_facts(options)}
    return msgspec.json.encode(plan).decode()


def range_facts(options: SourceOptions, wanted: OffsetRange) -> dict[str, Any]:
    """A range as ``PullPlan.java`` reads it."""
    queue, wanted_of_it = wanted.queue, filter_for(options, wanted.queue.topic)
    return {
        "topic": queue.topic,
        "shown_topic": unwrap(options.namespace, queue.topic),
        "broker": queue.broker,
        "queue": queue.number,
        "start": wanted.start,
        "end": wanted.end,
        "expression": wanted_of_it.expression,
        "kind": wanted_of_it.kind,
        "tags": sorted(wanted_of_it.tags),
    }


def cluster_facts(options: SourceOptions) -> dict[str, Any]:
    """How servers are reached. Raises OptionError for what the lane cannot do."""
    settings = client_settings(options)
    keys, tls = settings.credentials, settings.tls
    if tls and not isinstance(tls, bool) and tls.certificate_file is not None:
        raise OptionError("lane", "jvm cannot show a certificate of its own (tlsCertificate); use python")
    return {
        "nameservers": list(settings.nameservers),
        "credentials": keys
        and {"access_key": keys.access_key, "secret_key": keys.secret_key, "security_token": keys.security_token},
        "tls": None
        if not tls or isinstance(tls, bool)
        else {
            "ca_file": str(tls.ca_file or ""),
            "verify": tls.verify,
            "check_hostname": tls.check_hostname,
            "hostname": tls.hostname,
        },
    }


def pull_facts(options: SourceOptions) -> dict[str, Any]:
    """How requests are made."""
    settings = client_settings(options)
    return {
        "group": wrap(options.namespace, options.group) if options.group else NO_GROUP,
        "count": options.pull_count,
        "gather_bytes": options.gather_bytes,
        "retry_ms": options.retry_ms,
        "request_ms": options.request_ms,
        "connect_ms": settings.connect_timeout_ms,
        "discovery_ms": options.discovery_ms,
        "fail_on_data_loss": options.fail_on_data_loss,
    }
