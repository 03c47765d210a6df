"""Plans for the JVM lane: all that a task needs to read its ranges."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.spark.jvm.plans import plan_text

OPTIONS = SourceOptions(nameserver="a:9876;b:9876", topics=("orders",), tls=False)
PART = (OffsetRange(QueueId("orders", "broker-a", 3), 5, 9),)


def plan(part: Any = PART, **more: Any) -> Any:
    return json.loads(plan_text(replace(OPTIONS, **more), part))


def test_ranges_and_servers() -> None:
    found = plan(pull_count=7, fail_on_data_loss=False)
    (wanted,) = found["ranges"]
    assert (wanted["topic"], wanted["broker"], wanted["queue"]) == ("orders", "broker-a", 3)
    assert (wanted["start"], wanted["end"], wanted["expression"], wanted["tags"]) == (5, 9, "*", [])
    assert found["cluster"] == {"nameservers": ["a:9876", "b:9876"], "credentials": None, "tls": None}
    pulls = found["pulls"]
    assert (pulls["group"], pulls["count"], pulls["fail_on_data_loss"]) == ("TOOLS_CONSUMER", 7, False)


def test_names_have_the_namespace_for_brokers_and_none_in_rows() -> None:
    part = (OffsetRange(QueueId("ns%orders", "broker-a", 0), 0, 1),)
    found = plan(part, namespace="ns", group="reports")
    assert (found["ranges"][0]["topic"], found["ranges"][0]["shown_topic"]) == ("ns%orders", "orders")
    assert found["pulls"]["group"] == "ns%reports"


def test_filters_but_not_for_retries() -> None:
    part = (*PART, OffsetRange(QueueId("%RETRY%reports", "broker-a", 0), 0, 1))
    found = plan(part, tags="red || blue", group="reports")["ranges"]
    assert [each["tags"] for each in found] == [["blue", "red"], []]
    assert [each["expression"] for each in found] == ["red || blue", "*"]
    assert [each["kind"] for each in plan(part, sql="size > 6", group="reports")["ranges"]] == ["SQL92", "TAG"]


def test_credentials_and_tls() -> None:
    found = plan(access_key="spark", secret_key="hidden", tls_ca="/ca.pem", tls=None, tls_hostname="mq")["cluster"]
    assert found["credentials"] == {"access_key": "spark", "secret_key": "hidden", "security_token": ""}
    assert found["tls"] == {"ca_file": "/ca.pem", "verify": True, "check_hostname": True, "hostname": "mq"}
    with pytest.raises(OptionError, match="tlsCertificate"):
        plan(tls=True, tls_certificate="/own.pem")
