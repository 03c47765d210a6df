"""Messages to listeners, at once or in order, and what becomes of them: timeouts, send-back, dead letters.

Imports ``consumer.base`` and ``consumer.rules``; only the push consumer comes in.
"""
