"""The conclusion of a comparison in one sentence: which model is better, and which models are wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fastmcmd.evaluation.differences import LEAST_P, PairOfModels, Pairs
from fastmcmd.evaluation.result import Evaluation

__all__ = ["comparison_sentence", "joint"]

_ROUNDING = 1e-12  # a smaller difference of mean scores is rounding
# The first that is finite and tested for all models decides.
_SCORES = ("nll", "mean_crps", "mean_energy_score", "mean_brier_score")


def comparison_sentence(evaluations: dict[str, Evaluation], pairs: Pairs, level: float) -> str:
    """Return a sentence: which model is significantly better by a proper score, and which are wrong.

    Parameters
    ----------
    evaluations : dict of Evaluation
        Evaluations by the names of their models.
    pairs : Pairs
        Differences between the models.
    level : float
        Level of the tests.

    Returns
    -------
    str
        The sentence; "" for a single model, or if nothing was tested.
    """
    names = list(evaluations)
    if len(names) < 2:
        return ""
    parts = []
    decisive_scores = [one for one in _SCORES if _decides(pairs.of(one), len(names))]
    if decisive_scores:
        parts.append(_ranking(pairs.of(decisive_scores[0]), names, level))
        leader = _leader(pairs.of(decisive_scores[0]), names, level)
        for other in decisive_scores[1:]:
            rival = _leader(pairs.of(other), names, level)
            if rival not in (None, leader):
                parts.append(f"by {Pairs.label(other)} {rival} is better beyond chance")
    parts.append(_infinite(evaluations))
    parts.append(_misfits(evaluations, level))
    sentence = "; ".join(part for part in parts if part)
    if not sentence:
        return ""
    if not sentence.startswith(
        tuple(f"{name} " for name in names)
    ):  # names stay as they are written
        sentence = sentence[:1].upper() + sentence[1:]
    return sentence + "."


def _decides(pairs: Sequence[PairOfModels], models: int) -> bool:
    """Return whether a score has a finite difference and a test for every pair."""
    return len(pairs) == models * (models - 1) // 2 and all(
        math.isfinite(one.difference) and not math.isnan(one.p_adjusted) for one in pairs
    )


def _against(pairs: Sequence[PairOfModels], name: str) -> list[tuple[float, float, str]]:
    """Return a model's differences to the others, with p-values and names, the nearest rival first."""
    differences = []
    for one in pairs:
        if name == one.first:
            differences.append((one.difference, one.p_adjusted, one.second))
        elif name == one.second:
            differences.append((-one.difference, one.p_adjusted, one.first))
    return sorted(differences, key=lambda one: -one[0])


def _best(pairs: Sequence[PairOfModels], names: list[str]) -> str:
    """Return the model with the lowest score."""
    return min(names, key=lambda name: _against(pairs, name)[0][0])


def _leader(pairs: Sequence[PairOfModels], names: list[str], level: float) -> str | None:
    """Return the model that is significantly better than every other model, if any."""
    best = _best(pairs, names)
    return best if all(p <= level for _, p, _ in _against(pairs, best)) else None


def _ranking(pairs: Pairs, names: list[str], level: float) -> str:
    """Return a clause that names the best model, or the models that may be as good."""
    label, best = Pairs.label(pairs[0].measure), _best(pairs, names)
    rivals = _against(pairs, best)
    gap, p, nearest = rivals[0]
    lower = f"its {label} is {-gap:.3g} lower"
    ties = [f"{name} (p = {value:.3g})" for _, value, name in rivals if value > level]
    if len(names) == 2 and ties:
        differs = f"differs by {0.0 - gap:.3g}" if abs(gap) > _ROUNDING else "is the same"
        return f"neither {names[0]} nor {names[1]} is better beyond chance ({_p(p)}): the {label} {differs}"
    if len(names) == 2:
        return f"{best} is better than {nearest} beyond chance ({_p(p)}): {lower}"
    if ties:
        return (
            f"no model is the best beyond chance: {best} has the lowest {label}, "
            f"and {joint(ties)} may be as good"
        )
    largest = max(value for _, value, _ in rivals)
    return (
        f"{best} is the best of {len(names)} models beyond chance ({_p(largest, 'at most')}): "
        f"{lower} than that of {nearest}, the next"
    )


def _infinite(evaluations: dict[str, Evaluation]) -> str:
    """Return a clause that names the models which gave an outcome no probability."""
    names = [
        name
        for name, evaluation in evaluations.items()
        if any(one.name == "nll" and one.value == math.inf for one in evaluation.measured)
    ]
    label = Pairs.label("nll")
    return f"the {label} of {joint(names)} is infinite" if names else ""


def _misfits(evaluations: dict[str, Evaluation], level: float) -> str:
    """Return a clause that names the models that are significantly wrong."""
    tested = {name: one.test for name, one in evaluations.items() if one.test is not None}
    wrong = [name for name, test in tested.items() if test.p_value <= level]
    right = [name for name in tested if name not in wrong]
    if wrong and right:
        verb = "is" if len(wrong) == 1 else "are"
        return (
            f"{joint(wrong)} {verb} wrong beyond chance, and no misfit of {joint(right)} was found"
        )
    if wrong:
        return f"{'both' if len(wrong) == 2 else 'all'} are wrong beyond chance"
    return (
        f"no misfit beyond chance was found in {'either' if len(right) == 2 else 'any'}"
        if right
        else ""
    )


def _p(value: float, equals: str = "=") -> str:
    """Return a p-value of a normal approximation as text; far in the tail, only as a bound."""
    return f"p < {LEAST_P:g}" if value < LEAST_P else f"p {equals} {value:.3g}"


def joint(names: list[str], word: str = "and") -> str:
    """Return names as text: "a, b and c"."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" {word} {names[-1]}"
