"""Name server: knows which broker keeps which topic, and tells whoever asks."""
