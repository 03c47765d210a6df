"""Messages that wait for their time: delay levels, timers to the second, and taking such a message back.

Owns: where a delayed message is kept, and the runner that releases it when it is due.
Callers: ``sending``, ``transactions``, ``admin``. Imports: ``commit``, ``state``, ``base``.
"""
