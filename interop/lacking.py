"""What does not work today, or is not offered: one table each, to be pruned as things get done.

A row of ``LACKING`` is an expected failure: it may pass, and then the row can go. A row of ``NOT_OFFERED`` is never
run: that client has no such call, or goes wrong with RocketMQ's own broker too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

ANY: Final = "*"


class Row(NamedTuple):
    case: str  # name of the test function
    reason: str
    client: str = ANY
    server: str = ANY

    def matches(self, case: str, client: str, server: str) -> bool:
        return self.case == case and self.client in (ANY, client) and self.server in (ANY, server)


LACKING: Final[tuple[Row, ...]] = ()

NOT_OFFERED: Final[tuple[Row, ...]] = (
    Row("test_sends_through_the_vip_port", "no VIP port", client="pyromq"),
    Row("test_sends_through_the_vip_port", "not tried", client="go"),
    Row("test_requests_are_replied_to", "the replies of this client fail with Apache's broker too", client="go"),
    Row("test_lite_pull_assigned", "no seek", client="go"),
    Row("test_lite_pull_commits", "no assigned queues", client="go"),
    Row("test_orderly_dead_letters", "gives up one attempt later than other clients", client="go"),
    Row("test_reset_of_a_live_consumer", "does not go back with Apache's broker either", client="go"),
    Row("test_timers_after_a_while", "no timers", client="go"),
    Row("test_timers_at_a_moment", "no timers", client="go"),
    Row("test_transactions", "not tried", client="go"),
    Row("test_another_producer_is_asked", "not tried", client="go"),
    Row("test_a_java_producer_is_asked", "not tried", client="go"),
    Row("test_traces_are_read_by_mqadmin", "not tried", client="go"),
    Row("test_grpc_recall", "no recall", client="rust"),
    Row("test_grpc_priority", "no priorities", client="rust"),
    Row("test_grpc_change", "no call for it", client="rust"),
    Row("test_grpc_push", "no push consumer", client="rust"),
    Row("test_grpc_push_retry", "no push consumer", client="rust"),
    Row("test_grpc_dead_letters", "no push consumer", client="rust"),
    Row("test_grpc_order_after_failures", "no push consumer", client="rust"),
)
