"""What the rooms of a consumer share: the owned queue, requests to brokers, send-back, listeners, settings, statistics.

Imports ``consumer.rules``, ``client.producer`` and ``client.core``.
"""
