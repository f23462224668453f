// Roots of quadratic forms with bounds on their errors.
#pragma once

#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

inline double positive_part(double x) { return x > 0.0 || is_nan(x) ? x : 0.0; }

// Writes the roots (q,) of quadratic forms (q,) of the columns c of `coefficients` (u, q), and how far the roots
// of the exact forms may be from them. A form has an error of at most `unit` |c|_1^2, plus `tiny` unless c is 0.
inline void roots_of_forms(ins coefficients, in forms, double unit, double tiny, out roots, out errors) {
  const index_t q = forms.n;
  double* sizes = errors.data;
  for (index_t j = 0; j < q; ++j) sizes[j] = 0.0;
  for (index_t i = 0; i < coefficients.n; ++i) {
    const double* row = coefficients[i];
    for (index_t j = 0; j < q; ++j) sizes[j] += fabs(row[j]);
  }
  for (index_t j = 0; j < q; ++j) {
    const double size = sizes[j], slack = unit * (size * size) + (size > 0.0 ? tiny : 0.0);
    const double form = positive_part(forms[j]);
    const double low = sqrt(positive_part(forms[j] - slack)), root = sqrt(form), high = sqrt(form + slack);
    const double below = root - low, above = high - root;
    roots[j] = root;
    errors[j] = below > above || is_nan(below) ? below : above;
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
