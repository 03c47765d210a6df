"""Producers: the fast path and the slow path of a send, retries, batches, request-reply, traces.

Owns: which queues a topic may be sent to, and sends that are under way.
Callers: ``consumer`` (send-backs), ``transactions``, ``admin``, ``sync``. Imports: ``core``.
"""
