"""JSON bodies: RocketMQ's JSON dialect, and a struct for each body that is written in it.

``java_json`` (and its writer) know the dialect and no body; the other modules know bodies and lean on it.
Every package may import from here; here only ``model``, ``errors``, ``checksum`` and the root of ``wire`` are imported.
"""
