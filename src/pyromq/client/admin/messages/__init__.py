"""Messages for operators: searching a topic, and sending stored messages again."""
