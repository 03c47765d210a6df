"""How the tests are run: phases, what failed once, memory of every process, what could not run here."""
