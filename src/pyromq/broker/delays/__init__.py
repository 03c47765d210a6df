"""Messages that wait for their time: delay levels, timers, recalls, and the runner that lets them go.

Writes through ``commit``; imports ``base``, ``state`` and ``commit``.
"""
