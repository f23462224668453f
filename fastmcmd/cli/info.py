"""Show versions, processor features, threads and backends."""

from __future__ import annotations

import argparse

from fastmcmd.cli.output import Sheet, show

HELP = "show versions, instruction set, threads, backends"
EPILOG = """examples:
  fastmcmd info
  fastmcmd info --json > machine.json
"""

_EXTRAS = {
    "matplotlib": "plot",
    "pandas": "frame",
    "pyarrow": "disk",
    "rich": "cli",
    "torch": "torch",
    "sklearn": "test",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> None:
    """Print the installed packages and the devices."""
    import importlib.metadata
    import importlib.util
    import json
    import platform

    import fastmcmd
    from fastmcmd._base.memory import available_memory, format_bytes
    from fastmcmd.backends import available_backends

    versions = {
        "fastmcmd": fastmcmd.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: importlib.metadata.version(name) for name in ("numpy", "scipy", "numba")},
    }
    try:
        from fastmcmd import _core
    except ImportError as error:
        versions["instruction set"] = f"compiled extension missing: {error}"
    else:
        versions["instruction set"] = f"{_core.isa()} (of {', '.join(_core.available_isas())})"
    versions["threads"] = str(fastmcmd.get_num_threads())
    versions["free memory"] = format_bytes(available_memory())
    for name, status in available_backends().items():
        versions[f"backend {name}"] = status
    for module, extra in _EXTRAS.items():
        installed = importlib.util.find_spec(module) is not None
        versions[f"optional {module}"] = "found" if installed else f"not installed (extra: {extra})"
    if arguments.json:
        print(json.dumps(versions, indent=2))
        return
    width = max(map(len, versions))
    plain = "\n".join(f"{name.ljust(width)}  {value}" for name, value in versions.items())
    show(Sheet("", [["", ""], *map(list, versions.items())]), plain)
