"""Sending: a fast path, a slow path, attempts until a broker has the message; batches, request and reply, tracing.

Imports ``client.core``. Consumers send copies of failed messages with it, transactions and tools build on it.
"""
