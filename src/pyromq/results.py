"""What listeners and checks return, and what sends and transactions tell.

a listener returns      nothing or ConsumeStatus.SUCCESS; ConsumeStatus.RETRY; BatchResult for details
an orderly one          nothing or OrderlyStatus.SUCCESS; SUSPEND, COMMIT, ROLLBACK; OrderlyResult for details
a check returns         TransactionOutcome, or nothing while the outcome is not known
a send gives            SendReceipt, whose ``status`` is a SendStatus; a transaction TransactionReceipt
a failed message tells  FailureStory (``message.failure_story``); ``Admin.dead_letters_by_error`` gives ErrorGroups
``Admin.search`` gives  SearchResult for a MessageQuery; ``Admin.group_state`` a GroupState
"""

from __future__ import annotations

from pyromq.client.admin.error_groups import ErrorGroup, ErrorGroups
from pyromq.client.admin.messages.search import MessageQuery, SearchResult
from pyromq.client.admin.steering.group_state import GroupState
from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.core.transaction import Transaction, TransactionOutcome, TransactionReceipt
from pyromq.model.failure import Failure, FailureStory
from pyromq.model.message import SendReceipt, SendStatus

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
