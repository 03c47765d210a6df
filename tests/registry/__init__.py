"""A small schema registry that speaks Confluent's REST API, for tests."""
