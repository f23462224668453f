"""Parsing of the command line, exit codes, and one-line errors."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from fastmcmd._base.progress_line import clear_line
from fastmcmd._base.tables import did_you_mean, printable
from fastmcmd._version import __version__

__all__ = ["COMMANDS", "UsageError", "main", "make_parser"]

# Modules of this folder with `HELP`, optionally `EPILOG`, `add_arguments(parser)`, `run(arguments)`.
COMMANDS = (
    "demo", "evaluate", "compare", "test", "diagnose", "select", "recalibrate", "plan", "convert", "info",
    "bench", "completion",
)  # fmt: skip

_CHOICE = re.compile(r"invalid choice: '?([^'( ]*)'? \(choose from (.*)\)")
_EXAMPLES = """examples:
  fastmcmd demo
  fastmcmd evaluate predictions.npz --report report.html
  fastmcmd evaluate --help
"""


class UsageError(Exception):
    """Unusable arguments or input; the message says what to do."""


class _Parser(argparse.ArgumentParser):
    """A parser with one-line errors that suggest the most similar known word."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; a command reports options that it does not have, with a suggestion."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [one for action in self._actions for one in action.option_strings]
            near = (did_you_mean(one.split("=")[0], options) for one in unknown if one[:1] == "-")
            self.error(
                f"unrecognized arguments: {' '.join(unknown)}; {next(near, '')}".rstrip("; ")
            )
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Print the error in one line and exit with 2."""
        choice = _CHOICE.search(message)
        if choice:
            near = did_you_mean(choice[1], re.findall(r"[\w.-]+", choice[2]))
            message = f"{message}; {near}".rstrip("; ")
        self.exit(2, f"{self.prog}: error: {printable(message).strip()} (see {self.prog} --help)\n")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(
        prog="fastmcmd",
        description="Evaluate probabilistic predictions: conditional congruence error, certified.",
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


def _show_warning(message: object, *_: object, **__: object) -> None:
    clear_line()
    print(f"fastmcmd: warning: {printable(str(message), lines=True)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return 0, 1 (failure), 2 (usage or input) or 130 (Ctrl-C)."""
    parser = make_parser()
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        parser.print_help(sys.stderr)
        return 2
    parsed = parser.parse_args(words)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            parsed.run(parsed)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has closed it: end silently, as other tools do
        _drop_output()
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
        _drop_output()
        return 1
    except (MemoryError, ImportError) as error:
        print(f"fastmcmd: error: {_one_line(error)}", file=sys.stderr)
        return 1
    return 0


def _drop_output() -> None:
    """Drop output that cannot be written, or Python would try again and exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return printable(f"{where}{error.strerror or _one_line(error)}")


def _one_line(error: BaseException) -> str:
    return printable(" ".join(str(error).split())) or type(error).__name__
