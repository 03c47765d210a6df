"""``python -m pyromq`` is the command ``pyromq``."""

import sys

from pyromq.cli.main import main

sys.exit(main())
