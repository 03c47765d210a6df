"""From the buffer to the listener: concurrent and orderly services, worker pools, timeouts, send-back.

Owns: listener calls under way, and failed messages on their way back to the broker.
Callers: ``push_consumer``. Imports: ``base``, ``rules``, ``producer``.
"""
