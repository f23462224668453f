"""Entry point of ``python -m fastmcmd``, which runs the command ``fastmcmd``."""

import sys

from fastmcmd.cli import main

if __name__ == "__main__":
    sys.exit(main())
