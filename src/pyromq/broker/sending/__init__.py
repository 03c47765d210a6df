"""Messages coming in: sends, batches, send-backs of consumers, replies of the request-reply pattern.

Owns: the checks of a send in RocketMQ's order, and what a broker adds to the properties.
Callers: ``request_table``. Imports: ``delays``, ``commit``, ``state``, ``base``.
"""
