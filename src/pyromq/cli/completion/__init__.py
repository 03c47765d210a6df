"""Completion in shells: the scripts they load, and the names that they offer, asked of the cluster at that moment."""
