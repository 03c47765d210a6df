"""Transactional producer: prepare a message, execute, tell the outcome; answer check-backs of brokers.

Owns: transactions under way in this process.
Callers: ``sync``, ``outbox``, ``pipeline.sink``. Imports: ``consumer`` (listeners), ``producer``, ``core``.
"""
