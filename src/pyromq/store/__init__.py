"""The message store: commit log, consume queues, key index; synchronous, crash-safe."""
