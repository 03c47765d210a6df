"""Who may do what in the console: accounts and passwords, sessions, API tokens, and a bound on guessing."""
