"""PyroMQ."""
