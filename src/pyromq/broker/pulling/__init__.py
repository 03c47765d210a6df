"""Messages going out: pulls, and long polling for pulls that found nothing.

Owns: the pulls that wait, and what wakes them.
Callers: ``request_table``, ``admin``. Imports: ``state``, ``base``.
"""
