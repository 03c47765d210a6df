"""Group commit: what arrives in one turn of the event loop is written, flushed and answered together.

Owns: everything between a staged message and its response; who waits for the disk; the broker's internal writes; seals.
Callers: all rooms that write messages. Imports: ``base``, and ``store``.
"""
