"""`congruence_test` of Dask collections: exact, from sums of simulated outcomes."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.blockwise import Deferred
from fastmcmd._base.seeds import seed_sequence
from fastmcmd.distributed.blocks import Blocks
from fastmcmd.distributed.congruence import check_defaults, congruence_of, running
from fastmcmd.distributed.setting import setting_of
from fastmcmd.inference.combination import direction_of, evidence_of, rank_p_value, scores_of
from fastmcmd.inference.congruence_result import CongruenceTest
from fastmcmd.inference.inputs import check_simulations
from fastmcmd.predictive import Categorical
from fastmcmd.streaming.congruence_estimate import LADDER
from fastmcmd.streaming.congruence_sums import Ridge

__all__ = ["congruence_test"]

_SUPPORTED = (
    "x", "y", "prediction", "x_kernel", "y_kernel", "lam", "simulations", "weights",
    "random_state", "progress", "client",
)  # fmt: skip


def congruence_test(**arguments: object) -> CongruenceTest:
    """Return the exact test, as `fastmcmd.congruence_test`, from arguments in blocks.

    It ranks the observed rows by four statistics: the misfit of y, smoothed at 10 lam, lam and lam / 10,
    and the spread of the outcomes. The p-value is exact, and not that of the test of rows in memory, which
    also compares standardised outcomes and ranks.
    """
    from fastmcmd.inference.congruence_test import congruence_test as whole

    options = check_defaults(whole, arguments, _SUPPORTED)
    simulations = check_simulations(
        199 if options["simulations"] is None else options["simulations"]
    )
    rows = {name: options[name] for name in ("x", "y", "prediction", "weights")}
    blocks = Blocks.of(**{name: value for name, value in rows.items() if value is not None})
    seed = seed_sequence(options["random_state"])
    with running(options, "congruence_test", blocks) as run:
        setting = setting_of(
            run, blocks, seed, x_kernel=options["x_kernel"], y_kernel=options["y_kernel"],
            lam=options["lam"], rank=None, landmarks=None, simulations=simulations,
            certificate="rigorous", of_prediction=True,
        )  # fmt: skip
        state = congruence_of(run, blocks, setting, None)
    (model,) = state.models.values()
    ridge = Ridge(state, model, setting.lam)
    misfits = {factor: ridge.mean_squares(factor * setting.lam) for factor in LADDER}
    gaps = (model.spread - model.spread.mean()) / state.weight
    scores = scores_of(np.array([*misfits.values(), np.abs(gaps)]))
    names = [("y", f"smoothed misfit at lam={factor * setting.lam:g}") for factor in LADDER]
    p_value, misfit = rank_p_value(scores.max(axis=0)), misfits[1.0]
    return CongruenceTest(
        p_value=p_value,
        excess=float(misfit[0]) - ridge.mean_form(model.noise),
        evidence=evidence_of([*names, ("y", "dispersion")], scores),
        dispersion=direction_of(gaps[None]) if p_value <= 0.05 else "",
        rows=None,
        n=state.rows,
        simulations=simulations,
        lam=setting.lam,
        condition_on="x",
        simulated=misfit,
        of_classes=_predicts_classes(options["prediction"]),
    )


def _predicts_classes(prediction: object) -> bool:
    made_in_blocks = isinstance(prediction, Deferred) and prediction.make is Categorical
    return made_in_blocks or isinstance(prediction, Categorical)
