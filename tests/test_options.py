"""Options of a computation are defined once; signatures, command line and files agree with them."""

from __future__ import annotations

import argparse
import inspect

import pytest

import fastmcmd as fm
from fastmcmd.cli import arguments
from fastmcmd.downsampling import downsampled_cce
from fastmcmd.estimate import saved
from fastmcmd.options import DEFAULTS, Computation, Estimation

FUNCTIONS = {
    "cce": fm.cce,
    "mcmd": fm.mcmd,
    "ConditionalCongruence": fm.ConditionalCongruence,
    "downsampled_cce": downsampled_cce,
    "evaluate": fm.evaluate,
    "plan": fm.plan,
}
# Options that a function fixes, or leaves to its callers.
ABSENT = {
    "downsampled_cce": {"rank", "landmarks", "checkpoint"},
    "evaluate": {"rank", "landmarks", "cache_dir"},
    "plan": {"progress", "landmarks", "checkpoint"},
}
# Functions for which no tolerance means one that follows the noise, with their default.
BY_NOISE = {"ConditionalCongruence": 1e-6, "evaluate": None}


def types(kind: type) -> dict[str, str]:
    """Return the annotations of a typed dictionary as they are written."""
    return {name: one.__forward_arg__ for name, one in kind.__annotations__.items()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_have_the_shared_options(name):
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    options = {one: parameters[one] for one in types(Computation) if one in parameters}
    assert set(types(Computation)) - set(options) == ABSENT.get(name, set())
    defaults = {**DEFAULTS, "tol": BY_NOISE.get(name, DEFAULTS["tol"])}
    assert {one: value.default for one, value in options.items()} == {
        one: defaults[one] for one in options
    }
    annotations = {**types(Computation), **({} if name in BY_NOISE else {"tol": "float"})}
    assert {one: value.annotation for one, value in options.items()} == {
        one: annotations[one] for one in options
    }


def test_the_estimator_takes_all_of_an_estimation():
    parameters = inspect.signature(fm.ConditionalCongruence).parameters
    assert {name: one.annotation for name, one in parameters.items()} == types(Estimation)


def test_every_option_has_a_default():
    assert set(DEFAULTS) == set(types(Computation))


def test_files_of_estimators_hold_the_plain_options():
    assert set(saved._OPTIONS) - {"lam", "draws"} == set(DEFAULTS) - saved._ELSEWHERE
    assert set(DEFAULTS) >= saved._ELSEWHERE


def test_the_command_line_has_options_of_evaluate():
    parser = argparse.ArgumentParser()
    arguments.add_computation(parser)
    command_options = arguments.options_of(parser.parse_args([]))
    evaluate_options = set(inspect.signature(fm.evaluate).parameters) & set(DEFAULTS)
    assert command_options.keys() == evaluate_options - {
        "progress",
        "checkpoint",
    }  # the latter is an option beside --dask
    defaults = {**DEFAULTS, "tol": BY_NOISE["evaluate"]}
    assert command_options == {name: defaults[name] for name in command_options}
