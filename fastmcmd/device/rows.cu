// What happens to rows and to features of rows, whatever the kernel is.

using namespace fastmcmd::device;

// Coordinates that a thread takes together: those of one access to memory (32 bytes).
#define FASTMCMD_TOGETHER 8

// Rows (n x d, by rows, of float or double) into columns of `real`, less an offset where there is one.
template <class S>
__device__ __forceinline__ void lay(const S* raw, index_t ld_raw, const double* offset, real* out,
                                    index_t ld_out, index_t n, index_t d) {
  const index_t i = thread_x();
  const index_t first = thread_y() * FASTMCMD_TOGETHER;
  if (i >= n) return;
  for (index_t k = first; k < first + FASTMCMD_TOGETHER && k < d; ++k) {
    const S value = raw[i * ld_raw + k];
    out[k * ld_out + i] =
        offset ? static_cast<real>(static_cast<double>(value) - offset[k]) : static_cast<real>(value);
  }
}

extern "C" __global__ void lay_float32(const float* raw, index_t ld_raw, const double* offset, real* out,
                                       index_t ld_out, index_t n, index_t d) {
  lay(raw, ld_raw, offset, out, ld_out, n, d);
}

extern "C" __global__ void lay_float64(const double* raw, index_t ld_raw, const double* offset, real* out,
                                       index_t ld_out, index_t n, index_t d) {
  lay(raw, ld_raw, offset, out, ld_out, n, d);
}

// |x|^2, and 1 / |x| or 0 where the norm is 0.
extern "C" __global__ void norms(const real* x, index_t ldx, index_t n, index_t d, real* squared,
                                 real* inverse) {
  const index_t i = thread_x();
  if (i >= n) return;
  double sum = 0;
  for (index_t k = 0; k < d; ++k) {
    const double value = x[k * ldx + i];
    sum += value * value;
  }
  squared[i] = static_cast<real>(sum);
  inverse[i] = sum > 0 ? static_cast<real>(1 / sqrt(sum)) : static_cast<real>(0);
}

#if FASTMCMD_FLOAT32
// Exponents e of rows: the largest |coordinate| of x 2^-e lies in [2^14, 2^15), within the range of float16.
extern "C" __global__ void exponents(const real* x, index_t ldx, index_t n, index_t d, int* exponent) {
  const index_t i = thread_x();
  if (i >= n) return;
  real largest = 0;
  for (index_t k = 0; k < d; ++k) {
    const real size = number_math::absolute(x[k * ldx + i]);
    if (size > largest) largest = size;
  }
  int power = 0;  // largest < 2^power; 0 for a row of zeros
  frexpf(largest, &power);
  exponent[i] = power - 15;
}

// The float16 next to a number of at most 2^15, to even halfway. Below 2^-14 they are multiples of 2^-24, as
// are the float32 numbers around 0.75.
__device__ __forceinline__ float nearest_float16(float v) {
  if (number_math::absolute(v) < 0x1p-14f) return (v + 0.75f) - 0.75f;
  const unsigned bits = __float_as_uint(v);
  return __uint_as_float((bits + 0xFFFu + (bits >> 13 & 1u)) & 0xFFFFE000u);
}

// The bits of a float16, given as float.
__device__ __forceinline__ unsigned short float16_bits(float v) {
  const float size = number_math::absolute(v);
  const unsigned sign = __float_as_uint(v) >> 16 & 0x8000u;
  const unsigned bits = size < 0x1p-14f ? static_cast<unsigned>(size * 0x1p24f)
                                        : (__float_as_uint(size) - 0x38000000u) >> 13;
  return static_cast<unsigned short>(sign | bits);
}

// x 2^-e = high + low in float16, which tensor cores multiply: the products low.high + high.low + high.high
// have the error of float32. `parts` (4 d x n) are high, low, high, high: its last three, times its first
// three, are these products.
extern "C" __global__ void split(const real* x, index_t ldx, index_t n, index_t d, const int* exponent,
                                 unsigned short* parts, index_t ld) {
  const index_t i = thread_x();
  const index_t k = thread_y();
  if (i >= n || k >= d) return;
  const float value = ldexpf(x[k * ldx + i], -exponent[i]);
  const float nearest = nearest_float16(value);
  const unsigned short high = float16_bits(nearest);
  parts[k * ld + i] = high;
  parts[(d + k) * ld + i] = float16_bits(nearest_float16(value - nearest));
  parts[(2 * d + k) * ld + i] = high;
  parts[(3 * d + k) * ld + i] = high;
}
#endif

// out += u, summed in double.
extern "C" __global__ void add_to_double(const real* u, double* out, index_t count) {
  const index_t i = thread_x();
  if (i < count) out[i] += static_cast<double>(u[i]);
}

// out += u.
extern "C" __global__ void add(const real* u, real* out, index_t count) {
  const index_t i = thread_x();
  if (i < count) out[i] += u[i];
}

// Zeros above the diagonal of a square tile.
extern "C" __global__ void clear_above(real* tile, index_t ld, index_t order) {
  const index_t j = thread_x();
  const index_t i = thread_y();
  if (i < order && j > i && j < order) tile[i * ld + j] = static_cast<real>(0);
}

extern "C" __global__ void add_diagonal(real* tile, index_t ld, const double* diagonal, index_t count) {
  const index_t i = thread_x();
  if (i < count) tile[i * ld + i] += static_cast<real>(diagonal[i]);
}

// Rows of a triangular factor that are solved for by one thread; products take what lies before them.
// Plain substitution, because with inverted blocks the rounding is that of the inverse.
#define FASTMCMD_ORDER 32

// f := L^-1 f for `order` <= 32 rows of each of `cols` columns.
extern "C" __global__ void substitute(const real* factor, index_t ldl, index_t order, real* f, index_t ldf,
                                      index_t cols) {
  const index_t j = thread_x();
  if (j >= cols) return;
  real found[FASTMCMD_ORDER];
  for (int i = 0; i < FASTMCMD_ORDER; ++i) {
    if (i >= order) break;
    real sum = f[i * ldf + j];
    for (int l = 0; l < i; ++l) sum -= factor[i * ldl + l] * found[l];
    found[i] = sum / factor[i * ldl + i];
    f[i * ldf + j] = found[i];
  }
}

// f := L^-T f.
extern "C" __global__ void substitute_transposed(const real* factor, index_t ldl, index_t order, real* f,
                                                 index_t ldf, index_t cols) {
  const index_t j = thread_x();
  if (j >= cols) return;
  real found[FASTMCMD_ORDER];
  for (int back = 0; back < FASTMCMD_ORDER; ++back) {
    const int i = static_cast<int>(order) - 1 - back;
    if (i < 0) break;
    real sum = f[i * ldf + j];
    for (int l = i + 1; l < order; ++l) sum -= factor[l * ldl + i] * found[l];
    found[i] = sum / factor[i * ldl + i];
    f[i * ldf + j] = found[i];
  }
}

// Squared norms of the columns of f (p x cols), in double.
extern "C" __global__ void column_squares(const real* f, index_t ldf, index_t p, index_t cols,
                                          double* out) {
  const index_t j = thread_x();
  if (j >= cols) return;
  double sum = 0;
  for (index_t i = 0; i < p; ++i) {
    const double value = f[i * ldf + j];
    sum += value * value;
  }
  out[j] = sum;
}

// f (p x cols) in double, columns times weights where there are any.
extern "C" __global__ void weighted(const real* f, index_t ldf, index_t p, index_t cols,
                                    const double* weight, double* out, index_t ldo) {
  const index_t j = thread_x();
  const index_t i = thread_y();
  if (j >= cols || i >= p) return;
  const double value = f[i * ldf + j];
  out[i * ldo + j] = weight ? value * weight[j] : value;
}

// Row i of `out` (n x k, by rows) := scale[i] times row i of `a`, on top of `base` where there is one; without
// a scale, a copy.
extern "C" __global__ void scale_rows(const double* scale, const double* a, index_t lda, const double* base,
                                      index_t ldb, double* out, index_t ldo, index_t n, index_t k) {
  const index_t place = thread_x();
  if (place >= n * k) return;
  const index_t i = place / k, j = place % k;
  const double value = scale ? scale[i] * a[i * lda + j] : a[i * lda + j];
  out[i * ldo + j] = base ? base[i * ldb + j] + value : value;
}

// Numbers in double as `real`.
extern "C" __global__ void to_real(const double* u, real* out, index_t count) {
  const index_t i = thread_x();
  if (i < count) out[i] = static_cast<real>(u[i]);
}
