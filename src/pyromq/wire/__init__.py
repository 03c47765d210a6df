"""Byte formats: bytes to typed commands, bodies and records, and back; no I/O, no clock.

    headers/   ext fields as structs        json/   the JSON dialect and its bodies        fast/   hot paths, unrolled

Every package may import from here; here only ``model``, ``errors`` and ``checksum`` are imported.
"""
