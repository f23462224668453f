"""Parsing of the command line, exit codes, errors in one line."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from fastmcmd._base.progress_line import clear_line
from fastmcmd._base.tables import printable
from fastmcmd._version import __version__

__all__ = ["COMMANDS", "UsageError", "main", "make_parser"]

# Modules of this folder with `HELP`, perhaps `EPILOG`, `add_arguments(parser)`, `run(arguments)`.
COMMANDS = (
    "demo", "evaluate", "compare", "test", "diagnose", "select", "recalibrate", "plan", "convert", "info",
    "bench", "completion",
)  # fmt: skip

_EXAMPLES = """examples:
  fastmcmd demo
  fastmcmd evaluate predictions.npz --report report.html
  fastmcmd evaluate --help
"""


class UsageError(Exception):
    """Unusable arguments or input; the message says what to do."""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="fastmcmd",
        description="Judge probabilistic predictions: conditional congruence error, certified.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fastmcmd {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = importlib.import_module(f"fastmcmd.cli.{name}")
        sub = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            epilog=getattr(module, "EPILOG", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def _show_warning(message: object, *_: Any, **__: Any) -> None:
    clear_line()
    print(f"fastmcmd: warning: {printable(str(message), lines=True)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns 0, 1 (failure), 2 (usage or input) or 130 (Ctrl-C)."""
    parsed = make_parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            parsed.run(parsed)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has closed it: end silently, as other tools do
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("fastmcmd: interrupted; no file is half written", file=sys.stderr)
        return 130
    except FileNotFoundError as error:
        print(f"fastmcmd: error: {_of_system(error)}", file=sys.stderr)
        return 2
    except (UsageError, ValueError, TypeError) as error:
        print(f"fastmcmd: error: {_one_line(error)}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"fastmcmd: error: {_of_system(error)}", file=sys.stderr)
        return 1
    except (MemoryError, ImportError) as error:
        print(f"fastmcmd: error: {_one_line(error)}", file=sys.stderr)
        return 1
    return 0


def _of_system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return printable(f"{where}{error.strerror or _one_line(error)}")


def _one_line(error: BaseException) -> str:
    return printable(" ".join(str(error).split())) or type(error).__name__
