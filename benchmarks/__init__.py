"""Benchmarks: rates and CPU per operation, printed; never asserted."""
