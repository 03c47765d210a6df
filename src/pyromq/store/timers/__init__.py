"""Timers on disk: the timer log, the wheel over it, how far both have come.

Owns: RocketMQ's three timer files; all derived from the timer topic, so a crash loses none of it.
Callers: ``broker.delays``. Imports: ``files``, ``tables``, the commit log.
"""
