"""``python -m fastmcmd`` is the command ``fastmcmd``."""

import sys

from fastmcmd.cli import main

if __name__ == "__main__":
    sys.exit(main())
