"""What listeners and checks return, and what sends and transactions say.

a listener returns      nothing or ConsumeStatus.SUCCESS; ConsumeStatus.RETRY; BatchResult for details
an orderly one          nothing or OrderlyStatus.SUCCESS; SUSPEND, COMMIT, ROLLBACK; OrderlyResult for details
a check returns         TransactionOutcome, or nothing while the outcome is not known
a send gives            SendReceipt, whose ``status`` is a SendStatus; a transaction TransactionReceipt
a failed message tells  FailureStory (``message.failure_story``); ``admin.dead_letters.by_error`` gives ErrorGroups
``admin.messages.search`` gives  SearchResult for a MessageQuery; ``admin.groups.describe`` a GroupState
"""

from __future__ import annotations

from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.core.transaction import Transaction, TransactionOutcome, TransactionReceipt
from pyromq.model.failure import Failure, FailureStory
from pyromq.model.message import SendReceipt, SendStatus
from pyromq.operate.consumers.group_state import GroupState
from pyromq.operate.error_groups import ErrorGroup, ErrorGroups
from pyromq.operate.reading.search import MessageQuery, SearchResult

__all__ = [
    "BatchResult",
    "ConsumeStatus",
    "ErrorGroup",
    "ErrorGroups",
    "Failure",
    "FailureStory",
    "GroupState",
    "MessageQuery",
    "OrderlyResult",
    "OrderlyStatus",
    "SearchResult",
    "SendReceipt",
    "SendStatus",
    "Transaction",
    "TransactionOutcome",
    "TransactionReceipt",
]
