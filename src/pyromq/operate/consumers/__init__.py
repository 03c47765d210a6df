"""Consumer groups and their members: configurations, connected clients, what holds a group up."""
