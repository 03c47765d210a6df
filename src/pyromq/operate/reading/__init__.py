"""Stored messages: found by id, key and place, searched, and what they say of themselves."""
