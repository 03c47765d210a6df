"""Which queues are ours: subscriptions, rebalance rounds, taking and releasing queues.

Imports ``consumer.offsets``, ``consumer.base`` and ``consumer.rules``; only the consumers come in.
"""
