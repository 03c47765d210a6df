"""Timer files: messages that wait for a time, in RocketMQ's timer log and timer wheel, derived from the timer topic.

For the broker's timers, which own them. Imports ``files``, ``tables`` and the reader of the log.
"""
