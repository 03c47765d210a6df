"""A small client of the gRPC port that no library made: for simulations, hostile clients and fuzzers."""
