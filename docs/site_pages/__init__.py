"""What the site adds to the Markdown pages while it is built.

pages.py        navigation of folders, pages that stand in the root of the repository
commands.py     the page of all commands, from the command-line application itself
docstrings.py   docstrings as they are written here, as Sphinx wants them
"""
