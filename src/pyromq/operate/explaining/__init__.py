"""What became of a message: facts about its copies and its groups, put into words."""
