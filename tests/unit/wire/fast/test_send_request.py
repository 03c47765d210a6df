"""Fields written out against ``header_to_ext`` of the typed header."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.client.producer.outgoing import SEND, SEND_BATCH, SEND_REPLY, OutgoingMessage
from pyromq.model.queue import QueueId
from pyromq.wire.ext import header_to_ext
from pyromq.wire.fast.send_request import header_fields
from pyromq.wire.headers.producer import SendV2Header

I32 = st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1)
TEXTS = st.text(min_size=1, max_size=20)


@settings(max_examples=200)
@given(st.sampled_from([SEND, SEND_BATCH, SEND_REPLY]), st.lists(TEXTS, min_size=5, max_size=5), I32, I32, I32)
def test_fields_written_out_are_those_of_the_typed_header(
    code: int, texts: list[str], flag: int, sys_flag: int, number: int
) -> None:
    topic, properties, group, template, broker = texts
    message = OutgoingMessage(code, topic, b"x", properties, "ID", 1_700_000_000_000, 0, flag=flag, sys_flag=sys_flag)
    header = SendV2Header(
        producer_group=group,
        topic=topic,
        default_topic=template,
        default_topic_queue_nums=4,
        queue_id=number,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        flag=flag,
        properties=properties,
        reconsume_times=0,
        unit_mode=False,
        batch=code == SEND_BATCH,
        broker_name=broker,
    )
    assert header_fields(message, QueueId(topic, broker, number), group, template, "4") == header_to_ext(header)
