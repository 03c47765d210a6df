"""Requests of operators and tools: one method per request code, nothing joined; ``operate`` says what they mean."""
