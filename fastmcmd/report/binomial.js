// Central intervals of binomial counts: where the counts of a calibrated model lie.

// Returns the quantiles of (1 - level) / 2 and (1 + level) / 2 of the binomial distribution.
function binomialInterval(n, p, level) {
  if (!(n > 0) || p <= 0) return [0, 0];
  if (p >= 1) return [n, n];
  const mode = Math.min(n, Math.floor((n + 1) * p));
  const ratio = p / (1 - p);
  // Probabilities relative to that of the mode, until they no longer count.
  const below = [];
  const above = [];
  for (let k = mode, term = 1; k > 0; k -= 1) {
    term *= k / ((n - k + 1) * ratio);
    if (term < 1e-18) break;
    below.push(term);
  }
  for (let k = mode, term = 1; k < n; k += 1) {
    term *= ((n - k) * ratio) / (k + 1);
    if (term < 1e-18) break;
    above.push(term);
  }
  const terms = [...below.reverse(), 1, ...above];
  const first = mode - below.length;
  const total = terms.reduce((sum, term) => sum + term, 0);
  const quantile = (share) => {
    let sum = 0;
    for (let index = 0; index < terms.length; index += 1) {
      sum += terms[index] / total;
      if (sum >= share * (1 - 1e-12)) return first + index;
    }
    return first + terms.length - 1;
  };
  return [quantile((1 - level) / 2), quantile((1 + level) / 2)];
}
