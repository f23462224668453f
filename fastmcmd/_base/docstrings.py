"""Docstrings of functions that share parameters: each is described once and inserted at import."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from textwrap import dedent
from typing import Any, TypeVar

__all__ = [
    "FIT_PARAMETERS", "ROW_PARAMETERS", "describe_as_mean", "entries", "with_shared_parameters",
]  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])

_TITLES = "Parameters|Returns|Raises|Notes|Examples"
_HEADER = re.compile(rf"^({_TITLES})\n-{{3,}}\n", re.MULTILINE)


def entries(text: str) -> dict[str, str]:
    """Return the entries of a numpydoc parameter list by the names that they describe."""
    texts = {}
    for entry in re.split(r"\n(?=\S)", dedent(text).strip()):
        names = entry.partition("\n")[0].partition(" :")[0]
        texts[names] = entry.rstrip()
    return texts


# Of functions that aggregate rows, and of those that learn from rows.
ROW_PARAMETERS = entries("""
sample_weight : array_like (n,), optional
    Nonnegative weights of rows.
nan_policy : {"raise", "omit", "propagate"}, default "raise"
    What to do with rows that hold NaN in an outcome, a weight or a prediction: raise an error, leave them
    out of aggregates, or make aggregates NaN. In the last two cases, their per-row values are NaN.
""")
FIT_PARAMETERS = entries("""
sample_weight : array_like (n,), optional
    Nonnegative weights of rows.
nan_policy : {"raise", "omit"}, default "raise"
    What to do with rows that hold NaN: raise an error, or leave them out.
""")


def with_shared_parameters(descriptions: Mapping[str, str]) -> Callable[[Function], Function]:
    """Return a decorator that adds the shared parameters of a function to its docstring.

    Parameters are listed in the order of the signature. The docstring's own description of a parameter
    takes precedence over the shared one.

    Parameters
    ----------
    descriptions : mapping
        Entries by the name of the parameter; see `entries`.
    """

    def decorate(function: Function) -> Function:
        if function.__doc__:  # python -OO strips docstrings
            names = list(inspect.signature(function).parameters)
            function.__doc__ = _merged(inspect.cleandoc(function.__doc__), names, descriptions)
        return function

    return decorate


def describe_as_mean(
    mean: Callable[..., object], score: Callable[..., object], name: str, summary: str, example: str
) -> None:
    """Give the mean of a score its name, signature and docstring.

    The parameters are those of the score, with ``sample_weight`` before ``nan_policy``.
    """
    parameters = list(inspect.signature(score).parameters.values())
    place = [parameter.name for parameter in parameters].index("nan_policy")
    weight = inspect.Parameter(
        "sample_weight", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="ArrayLike | None"
    )
    parameters.insert(place, weight)
    mean.__name__ = mean.__qualname__ = name
    mean.__module__ = score.__module__
    mean.__signature__ = inspect.Signature(parameters, return_annotation="float")  # type: ignore[attr-defined]
    if not score.__doc__:
        return
    sections = _sections(score.__doc__)
    returned = f"float\n    Weighted mean over rows of `{score.__name__}`."
    text = f"{inspect.cleandoc(summary)}\n\nReturns\n-------\n{returned}\n\n"
    if "Raises" in sections:
        text += f"Raises\n------\n{sections['Raises']}\n\n"
    text += f"Examples\n--------\n{inspect.cleandoc(example)}\n"
    described = _by_name(entries(sections["Parameters"]))
    described["sample_weight"] = ROW_PARAMETERS["sample_weight"]
    mean.__doc__ = _merged(text, [parameter.name for parameter in parameters], described)


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by their titles; the text before them as ""."""
    first, *parts = _HEADER.split(inspect.cleandoc(text))
    titles, bodies = parts[::2], parts[1::2]
    return {"": first.strip(), **{t: b.strip("\n") for t, b in zip(titles, bodies, strict=True)}}


def _by_name(descriptions: Mapping[str, str]) -> dict[str, str]:
    """Return entries by each name alone; some describe several parameters."""
    return {name: entry for group, entry in descriptions.items() for name in group.split(", ")}


def _merged(text: str, names: list[str], descriptions: Mapping[str, str]) -> str:
    """Return a docstring whose parameter list also holds the shared entries."""
    sections = _sections(text)
    by_name = _by_name(entries(sections.pop("Parameters", "")))
    entry_texts = [by_name.get(name) or descriptions.get(name, "") for name in names]
    body = "\n".join(dict.fromkeys(entry for entry in entry_texts if entry))
    head = sections.pop("")
    further_sections = (f"{title}\n{'-' * len(title)}\n{part}" for title, part in sections.items())
    return "\n\n".join([head, f"Parameters\n----------\n{body}", *further_sections]) + "\n"
