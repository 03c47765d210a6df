"""Transactions: prepared messages, their outcome, and check-backs when the outcome stays away.

Owns: which prepared messages are open, the op records that close them, the rounds of checks.
Callers: ``request_table``. Imports: ``delays``, ``commit``, ``state``, ``base``.
"""
