"""Rebalance: which queues this member has; taking, locking and releasing them.

Owns: the set of owned queues; ``rules.assign`` and ``rules.assignment`` decide, this room acts.
Callers: ``group_member``. Imports: ``offsets``, ``base``, ``rules``.
"""
