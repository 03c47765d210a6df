"""Popping: a message is handed out for a time and acknowledged by itself; no queue belongs to a member.

    calls ─▶ pops ─┬─▶ settling: acknowledgements, other times, dead letters by request; receipts say of what
                   ├─▶ the in-flight table (``store.in_flight``): who has what until when
                   ├─▶ journal: what changed in this loop iteration, one record of the commit log
                   └─▶ dead: messages that were delivered often enough go to %DLQ%group

Every front door calls the same objects, ``Pops`` and its ``settler``; ``pop_requests`` is the one of the remoting
protocol. On the loop:

    result   = await pops.pop(PopRequest(group=…, topic=…, count=32, invisible_ms=60_000, poll_ms=15_000, …), owner)
               PopResult with ``portions``, or ``result.messages()``: list[PoppedMessage(record, receipt, attempts,
               topic)]; ``result`` is None when nothing came in time. ``owner`` (a connection, or any object):
               ``pops.waiting.drop_owner(owner)`` ends its waiting pops without handing out anything. A cancelled
               call hands out nothing. ``pops.settler.give_back(result)`` makes what could not be delivered visible
               again, uncounted.
               Raises RefusedError: TOPIC_NOT_EXIST, NO_PERMISSION, INVALID_PARAMETER, SUBSCRIPTION_PARSE_FAILED,
               POLLING_FULL (too many wait), SUBSCRIPTION_GROUP_NOT_EXIST.
    await pops.settler.ack(group, topic, receipt)                      returns when the acknowledgement is durable
    receipt = await pops.settler.change_invisible(group, topic, receipt, invisible_ms, suspend=False)   the new receipt
    await pops.settler.forward_to_dead_letters(group, topic, receipt)  stored in %DLQ%group, then acknowledged
               ``topic`` is the topic that was popped, never a retry topic; ``receipt`` the text of a PoppedMessage.
               Raise InvalidReceiptError (a RefusedError, code NO_MESSAGE) for one that is forged, used, of another
               group or topic, or whose message was handed out to somebody else since; StoreError when not stored.
    found    = await pops.wait(PopRequest(…), owner)                   True when a pop would find something now

Receipts: eight words, as Apache RocketMQ writes them (``receipts``). Attempts count deliveries, from 1.
"""
