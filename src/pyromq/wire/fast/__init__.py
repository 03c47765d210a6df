"""Fast paths of formats: the same bytes as the plain modules of ``wire`` give, unrolled for the hot paths.

Each module here names the plain one that it imitates, and a test compares the two byte for byte.
Every package may import from here; here only ``model``, ``errors``, ``checksum`` and the rest of ``wire`` are imported.
"""
