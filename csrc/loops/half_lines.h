// Expectations of Matern kernels of normally distributed differences, as integrals over each half of the line.
#pragma once

#include "exponentials.h"
#include "views.h"

namespace fastmcmd::FASTMCMD_ISA_NAMESPACE {

constexpr index_t normals_at_once = 32;  // steps of a single recurrence wait for each other
using normals = double[normals_at_once];

// J_k(u) = integral of v^k exp(-v^2 / 2 - u v) over v > 0, divided by sqrt(2 pi), for u >= 0:
// (1 + u / 2)^(k + 1) J_k(u) is a Chebyshev series in (u - 4) / (u + 4), exact to 1e-17.
constexpr index_t half_line_terms = 30;
constexpr double half_line_series[3][half_line_terms] = {
    {3.1693740065980555e-1, -1.4669730851437619e-1, 3.3308422746968099e-2, -3.8741902119489376e-3,
     -4.5517679733683461e-4, 3.0636139113884212e-4, -5.6561215948192731e-5, 8.6769871072560180e-7,
     1.5219360536009355e-6, -1.6751406151775828e-7, -3.8383317974903413e-8, 7.5390751383789459e-9,
     1.2020093950597371e-9, -2.9919853734683227e-10, -5.0331577405544665e-11, 1.1398127092785247e-11,
     2.5929282474209310e-12, -3.8805267638016458e-13, -1.4429441659458382e-13, 8.3258874813676804e-15,
     7.8401862451165665e-15, 3.0111071724172988e-16, -3.7987248232423813e-16, -5.8517108854652314e-17,
     1.3864082799394977e-17, 5.0793358423265676e-18, -1.0257669601547069e-19, -3.1325311782208010e-19,
     -4.1523660020817608e-20, 1.2516075785132890e-20},
    {2.2295028289904661e-1, -1.5146388154595570e-1, 2.8835176199394461e-2, 1.2769700258580075e-3,
     -2.4369209488918552e-3, 6.0965236670752132e-4, -1.4184143075045552e-5, -2.6636019672173942e-5,
     4.8078585290785911e-6, 5.4893365866079681e-7, -2.4728286511141744e-7, -9.1308624166294255e-9,
     1.1162965317332047e-8, 2.3862368883530256e-10, -5.1786085088842253e-10, -2.0926986006368083e-11,
     2.4758768925599706e-11, 2.2179153084500320e-12, -1.1509213488256898e-12, -2.0026016745639348e-13,
     4.6050570722991101e-14, 1.5454518755587683e-14, -1.0218860898766771e-15, -1.0139286096184138e-15,
     -6.3231369746953385e-17, 5.3049731947562615e-17, 1.1279133384312168e-17, -1.6682821060611493e-18,
     -9.7821995768763956e-19, -5.0407285946695147e-20},
    {2.8057677545889591e-1, -2.1352230811084522e-1, 2.5299722776702910e-2, 1.2779986814529947e-2,
     -6.2827464918788866e-3, 7.0149583410075024e-4, 2.7557250216155032e-4, -9.6609204810038607e-5,
     -1.1327245247725003e-6, 5.4665803043434110e-6, -4.3808790988663285e-7, -2.5929447254873068e-7,
     3.3332443510459896e-8, 1.3136517032903853e-8, -1.7888611990467024e-9, -7.4834963532700274e-10,
     7.4807547170787567e-11, 4.5856043751578730e-11, -1.5358642542149144e-12, -2.8012333031149172e-12,
     -1.4490767820512566e-13, 1.5640469988796782e-13, 2.5494414759254855e-14, -6.8891815236904869e-15,
     -2.4893386439535767e-15, 1.1461973413572551e-16, 1.8048537472249394e-16, 1.9446656667204343e-17,
     -9.1899094157915754e-18, -2.8615141027291333e-18},
};

inline void half_line_integrals(index_t k, const normals& u, normals& values) {
  const double* c = half_line_series[k];
  normals twice, after = {}, beyond = {};
  for (index_t l = 0; l < normals_at_once; ++l) twice[l] = 2.0 * (u[l] - 4.0) / (u[l] + 4.0);
  for (index_t m = half_line_terms - 1; m > 0; --m) {
    for (index_t l = 0; l < normals_at_once; ++l) {
      const double now = c[m] + twice[l] * after[l] - beyond[l];
      beyond[l] = after[l];
      after[l] = now;
    }
  }
  for (index_t l = 0; l < normals_at_once; ++l) {
    const double scale = 1.0 / (1.0 + 0.5 * u[l]);
    double power = scale;
    for (index_t m = 0; m < k; ++m) power *= scale;
    values[l] = (c[0] + 0.5 * twice[l] * after[l] - beyond[l]) * power;
  }
}

constexpr double narrowest = 1e-60, widest = 1e140;  // scales whose squares and products stay in range
constexpr double matern_factors[3] = {1.0, 1.0, 1.0 / 3.0};

// values = E p(|D|) exp(-|D|), p(r) = 1, 1 + r or 1 + r + r^2 / 3, for normal D of mean g and standard deviation c.
//
// With t = g / c and u = c -+ t, each half of the line gives phi(t) sum_k c^k J_k(u) times the factors of p, phi the
// factor exp(-t^2 / 2). For u < 0, J_k(u) = exp(u^2 / 2) m_k(-u) - (-1)^k J_k(-u) with the moments m_k(w) = 1, w and
// 1 + w^2 of a normal distribution, and phi(t) exp(u^2 / 2) = exp(c^2 / 2 -+ g).
inline void matern_of_normal(index_t order, const normals& g, const normals& deviation, normals& values) {
  normals c, t, phi;
  for (index_t l = 0; l < normals_at_once; ++l) {
    c[l] = least(greatest(deviation[l], narrowest), widest);
    t[l] = least(greatest(g[l] / c[l], -widest), widest);
    phi[l] = -0.5 * t[l] * t[l];
    values[l] = 0.0;
  }
  exponentials(phi);
  for (double sign = 1.0; sign >= -1.0; sign -= 2.0) {
    normals u, size, grown;
    for (index_t l = 0; l < normals_at_once; ++l) {
      u[l] = c[l] + sign * t[l];
      size[l] = fabs(u[l]);
      grown[l] = u[l] < 0.0 ? c[l] * (0.5 * c[l] + sign * t[l]) : 0.0;
    }
    exponentials(grown);
    for (index_t k = 0; k <= order; ++k) {
      normals part;
      half_line_integrals(k, size, part);
      for (index_t l = 0; l < normals_at_once; ++l) {
        const double moment = k == 0 ? 1.0 : k == 1 ? size[l] : 1.0 + size[l] * size[l];
        const double inside = phi[l] * part[l];
        const double all = u[l] < 0.0 ? grown[l] * moment - (k == 1 ? -inside : inside) : inside;
        const double power = k == 0 ? 1.0 : k == 1 ? c[l] : c[l] * c[l];
        values[l] += matern_factors[k] * power * all;
      }
    }
  }
}

// values_i = E p(r) exp(-r) with r = rate |D_i| and p of an order from 0 to 2, for normal D_i of means and standard
// deviations.
inline void matern_of_normals(in mean, in deviation, double rate, int64_t order, out values) {
  for (index_t i = 0; i < mean.n; i += normals_at_once) {
    const index_t size = least(normals_at_once, mean.n - i);
    normals g, c, expected;
    for (index_t l = 0; l < normals_at_once; ++l) {
      g[l] = rate * mean[i + least(l, size - 1)];
      c[l] = rate * deviation[i + least(l, size - 1)];
    }
    matern_of_normal(order, g, c, expected);
    for (index_t l = 0; l < size; ++l) values[i + l] = expected[l];
  }
}

// The same for all pairs of independent normal numbers (n,) and (m,). Squares of deviations do not overflow below
// `widest`, and those that underflow do not matter.
inline void matern_of_normal_pairs(in mean, in deviation, in against, in spread, double rate,
                                   int64_t order, outs values) {
  for (index_t i = 0; i < mean.n; ++i) {
    const double own = least(rate * deviation[i], widest), square = own * own;
    for (index_t j = 0; j < against.n; j += normals_at_once) {
      const index_t size = least(normals_at_once, against.n - j);
      normals g, c, expected;
      for (index_t l = 0; l < normals_at_once; ++l) {
        const index_t at = j + least(l, size - 1);
        const double other = least(rate * spread[at], widest);
        g[l] = rate * (mean[i] - against[at]);
        c[l] = sqrt(square + other * other);
      }
      matern_of_normal(order, g, c, expected);
      for (index_t l = 0; l < size; ++l) values[i][j + l] = expected[l];
    }
  }
}

}  // namespace fastmcmd::FASTMCMD_ISA_NAMESPACE
