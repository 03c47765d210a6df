"""Steering groups: how one stands as a whole, pausing it, and where it can be moved."""
