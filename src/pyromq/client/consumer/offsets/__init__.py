"""Consumption progress: kept at brokers for a group that shares queues, in a file for one that broadcasts.

Owns: when an offset is written, and where.
Callers: ``assigning``, ``group_member``. Imports: ``base``, ``rules``.
"""
