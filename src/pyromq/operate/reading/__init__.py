"""Stored messages: found by id, key and place, searched, what they say of themselves; schemas of topics."""
