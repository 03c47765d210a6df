"""Bytes to typed commands and records, and back; no I/O, no clock."""
