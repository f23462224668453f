"""Calibration measures by definition, in mpmath and fractions, at scales from 1e-300 to 1e300."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction as F
from typing import Any

import numpy as np
from mpmath import mp, mpf

import fastmcmd as fm

_NEAR = mpf(10) ** -11  # a PIT this close to a level may lie on either side of it


def exact(values: Any) -> list[F]:
    """Return doubles as fractions."""
    return [F(float(v)) for v in values]


def real(value: F) -> Any:
    """Return a fraction in mpmath."""
    return mpf(value.numerator) / value.denominator


def _normal_cdf(z: Any) -> Any:
    return mp.ncdf(z)


def _laplace_cdf(z: Any) -> Any:
    return mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2


def _sample(rng: Any) -> tuple[Any, Any, Any, Any, str]:
    """Return y, the prediction's parameters, weights and family."""
    n = int(rng.integers(2, 40))
    scale = 10.0 ** rng.uniform(-300, 300) if rng.random() < 0.6 else 1.0
    std = scale * 10.0 ** rng.uniform(-1, 1, n)
    mean = scale * rng.normal(size=n) * float(rng.choice([0.0, 1.0, 10.0]))
    y = mean + std * rng.normal(size=n) * float(rng.choice([0.3, 1.0, 3.0]))
    w = 10.0 ** rng.uniform(-12, 0, n) if rng.random() < 0.4 else np.ones(n)
    return y, mean, std, w, str(rng.choice(["Gaussian", "Laplace"]))


def reliability(rng: Any) -> Iterator[tuple[str, str, Any, Any, Any]]:
    """Measure the PIT: calibration errors, the miscalibration area, coverage, interval widths."""
    y, mean, std, w, family = _sample(rng)
    prediction = getattr(fm, family)(mean, std)
    arrays = ", ".join(f"np.array({v.tolist()})" for v in (mean, std))
    call_text = (
        f"np.array({y.tolist()}), fm.{family}({arrays}), sample_weight=np.array({w.tolist()})"
    )
    cdf = _normal_cdf if family == "Gaussian" else _laplace_cdf
    pit = [
        cdf((mpf(a) - mpf(m)) / mpf(s)) for a, m, s in zip(y, mean, std, strict=True)
    ]  # of the doubles that are given
    levels = np.unique(rng.uniform(0.01, 0.99, int(rng.integers(2, 12))))
    call_with_levels = f"{call_text}, levels=np.array({levels.tolist()})"
    metrics, total = fm.metrics, mp.fsum(mpf(v) for v in w)
    for kind in ("quantile", "interval"):
        place = pit if kind == "quantile" else [2 * abs(p - mpf("0.5")) for p in pit]
        if any(abs(p - mpf(q)) < _NEAR for p in place for q in levels):
            continue
        observed = [
            mp.fsum(mpf(v) for v, p in zip(w, place, strict=True) if p <= q) / total for q in levels
        ]
        gaps = [o - mpf(q) for o, q in zip(observed, levels, strict=True)]
        count, options = len(gaps), {"levels": levels, "kind": kind, "sample_weight": w}
        line = f"{call_with_levels}, kind={kind!r}"
        sizes = [abs(g) for g in gaps]
        squares = mp.sqrt(mp.fsum(g * g for g in gaps) / count)
        area = mpf(0)
        for i in range(count - 1):
            width = mpf(levels[i + 1]) - mpf(levels[i])
            a, b = gaps[i], gaps[i + 1]
            same = a * b >= 0
            area += width * (sizes[i] + sizes[i + 1]) / 2 if same else (
                width * (a * a + b * b) / (2 * (sizes[i] + sizes[i + 1]))
            )  # fmt: skip
        one = mpf(1)
        yield (
            "regression_ece",
            line,
            metrics.regression_ece(y, prediction, **options),
            mp.fsum(sizes) / count,
            one,
        )
        for name, right in (
            ("rms_calibration_error", squares),
            ("mean_absolute_calibration_error", mp.fsum(sizes) / count),
            ("miscalibration_area", area),
        ):
            yield name, line, getattr(metrics, name)(y, prediction, **options), right, one
    level = float(rng.uniform(0.05, 0.99))
    if not any(abs(2 * abs(p - mpf("0.5")) - level) < _NEAR for p in pit):
        inside = mp.fsum(
            mpf(v) for v, p in zip(w, pit, strict=True) if 2 * abs(p - mpf("0.5")) <= level
        )
        came = metrics.coverage(y, prediction, level, sample_weight=w)
        yield "coverage", f"{call_text}, level={level!r}", came, inside / total, mpf(1)
    half = mp.erfinv(mpf(level)) * mp.sqrt(2) if family == "Gaussian" else -mp.log(1 - mpf(level))
    widths = mp.fsum(2 * half * mpf(v) * mpf(s) for v, s in zip(w, std, strict=True)) / total
    came = metrics.mean_interval_width(y, prediction, level, sample_weight=w)
    # Ends are rounded before they are subtracted.
    yield "mean_interval_width", f"{call_text}, level={level!r}", came, widths, mpf(max(abs(mean)))


def _bins(spread: list[F], weights: list[F], bins: int, binning: str) -> list[dict[int, F]]:
    """Return the share of each row in each bin."""
    weights_of: list[dict[int, F]] = [{} for _ in range(bins)]
    if binning == "width":
        low, high = float(min(spread)), float(max(spread))
        edges = np.linspace(low, high, bins + 1)
        for i, value in enumerate(spread):
            place = 0 if low == high else int(np.searchsorted(edges, float(value), "right")) - 1
            weights_of[min(max(place, 0), bins - 1)][i] = F(1)
        return weights_of
    order = sorted(range(len(spread)), key=lambda i: spread[i])
    total, begin = sum(weights), F(0)
    for i in order:
        end = begin + weights[i]
        for b in range(bins):
            left, right = max(begin, total * b / bins), min(end, total * (b + 1) / bins)
            if left < right:
                weights_of[b][i] = (right - left) / weights[i]
        begin = end
    return weights_of


def variances(rng: Any) -> Iterator[tuple[str, str, Any, Any, Any]]:
    """Return ENCE and UCE: errors against predicted variances in bins of spread."""
    y, mean, std, w, _ = _sample(rng)
    if len(set(std.tolist())) < len(std):
        return
    call_text = f"np.array({y.tolist()}), (np.array({mean.tolist()}), np.array({std.tolist()}))"
    call_text += f", sample_weight=np.array({w.tolist()})"
    fy, fm_, fs, fw = exact(y), exact(mean), exact(std), exact(w)
    metrics, prediction = fm.metrics, fm.Gaussian(mean, std)
    for binning in ("mass", "width"):
        bins = int(rng.integers(1, len(y) + 1))
        by = str(rng.choice(["std", "variance"])) if binning == "width" else "std"
        if binning == "width" and (by == "variance") and not 1e-70 < std.max() < 1e70:
            by = "std"  # edges of squares beyond the range of doubles
        spread = fs if by == "std" else exact(std**2)
        ence, uce, used_bins = mpf(0), F(0), 0
        for shares in _bins(spread, fw, bins, binning):
            mass = sum((fw[i] * share for i, share in shares.items()), F(0))
            if mass == 0:
                continue
            used_bins += 1
            mv = sum((fw[i] * share * fs[i] ** 2 for i, share in shares.items()), F(0))
            mse = sum((fw[i] * share * (fy[i] - fm_[i]) ** 2 for i, share in shares.items()), F(0))
            ence += abs(1 - mp.sqrt(real(mse / mv)))
            uce += abs(mse - mv)
        line = f"{call_text}, bins={bins}, binning={binning!r}, by={by!r}"
        options = {"bins": bins, "binning": binning, "by": by, "sample_weight": w}
        yield "ence", line, metrics.ence(y, prediction, **options), ence / used_bins, mpf(1)
        right = real(uce / sum(fw))
        largest = real(
            max(max(v * v for v in fs), max((a - b) ** 2 for a, b in zip(fy, fm_, strict=True)))
        )
        try:
            came = metrics.uce(y, prediction, **options)
        except ValueError as error:
            if "another unit" in str(error) and not mpf(10) ** -307 < right < mpf(10) ** 307:
                continue
            raise
        yield "uce", line, came, right, largest


def classes(rng: Any) -> Iterator[tuple[str, str, Any, Any, Any]]:
    """Return calibration errors of class 1 and of the top class, for both kinds of bins and all norms."""
    n, bins = int(rng.integers(2, 40)), int(rng.integers(1, 20))
    p = rng.beta(*10.0 ** rng.uniform(-2, 1, 2), n)
    p = np.round(p * 10) / 10 if rng.random() < 0.3 else p
    p[rng.random(n) < 0.1] = float(rng.choice([0.0, 1.0, 1 - 2.0**-53, 1e-300]))
    y, w = rng.integers(0, 2, n), np.ones(n)
    if rng.random() < 0.5:
        w = 10.0 ** rng.uniform(-12, 0, n)
    call_text = (
        f"np.array({y.tolist()}), np.array({p.tolist()}), sample_weight=np.array({w.tolist()})"
    )
    edges = np.linspace(0, 1, bins + 1)
    fp, fw = exact(p), exact(w)
    for closed in ("right", "left"):
        side = "left" if closed == "right" else "right"
        rows_of: dict[int, list[int]] = {}
        for i, value in enumerate(p):
            place = int(np.searchsorted(edges, value, side=side)) - 1
            rows_of.setdefault(min(max(place, 0), bins - 1), []).append(i)
        gaps = [
            abs(sum((fw[i] * (int(y[i]) - fp[i]) for i in rows), F(0))) for rows in rows_of.values()
        ]
        masses = [sum((fw[i] for i in rows), F(0)) for rows in rows_of.values()]
        total = sum(masses)
        rights = {
            "l1": real(sum(gaps) / total),
            "l2": mp.sqrt(real(sum(g * g / m for g, m in zip(gaps, masses, strict=True)) / total)),
            "max": real(max(g / m for g, m in zip(gaps, masses, strict=True))),
        }
        for norm, right in rights.items():
            options = {"bins": bins, "closed": closed, "of": "positive", "sample_weight": w}
            line = f"{call_text}, bins={bins}, closed={closed!r}, of='positive'"
            came = fm.classification.ece(y, p, norm=norm, **options)
            yield "classification.ece", f"{line}, norm={norm!r}", came, right, mpf(1)
        came = fm.classification.mce(y, p, bins=bins, closed=closed, of="positive", sample_weight=w)
        yield "classification.mce", line, came, rights["max"], mpf(1)
