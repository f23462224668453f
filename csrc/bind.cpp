// The Python module: checks, unwraps, releases the GIL, calls.
#include <pybind11/stl.h>

#include <algorithm>

#include "arrays.h"
#include "bind_loops.h"
#include "bits.h"
#include "cholesky.h"
#include "dispatch.h"
#include "eigen.h"
#include "group_sums.h"
#include "docs.h"
#include "landmarks.h"
#include "normals.h"
#include "points.h"
#include "products.h"
#include "row_memory.h"
#include "tall_skinny.h"

namespace fastmcmd {
namespace {

using namespace pybind11::literals;

const isa_tables& isa() {
  static const isa_tables& chosen = select_isa();
  return chosen;
}

template <class T>
const kernel_table<T>& table() {
  if constexpr (sizeof(T) == sizeof(float)) {
    return *isa().f32;
  } else {
    return *isa().f64;
  }
}

bool signal_pending() {
  const py::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

execution execution_with(int threads) {
  FASTMCMD_CHECK(threads >= 1, "threads must be at least 1");
  return {threads, &signal_pending};
}

// Runs work without the GIL; a signal's exception is already set when it interrupts.
template <class Work>
auto without_gil(const Work& work) {
  try {
    const py::gil_scoped_release release;
    return work();
  } catch (const interrupted&) {
    throw py::error_already_set();
  }
}

index_t checked_tile(index_t tile) {
  FASTMCMD_CHECK(tile >= 1 && tile <= (index_t(1) << 20), "tile must be between 1 and 2^20");
  return tile;
}

template <class T>
gram_source<T> make_source(const py::array& codes, const py::array& params, const points<T>& x,
                           const points<T>& z, bool symmetric) {
  const index_t count = length(codes, "codes", 0);
  FASTMCMD_CHECK(x.d() == z.d(), "x and z must have the same number of columns");
  return {table<T>(), x.view(), z.view(),
          make_program(read<int32_t>(codes, "codes", {count}),
                       read<double>(params, "params", {count, params_per_op}), count, x.d()),
          symmetric};
}

template <class T, class Source>
points<T> pack_points(const py::array& data, const double* offset, const execution& how) {
  const index_t n = length(data, "data", 0), d = length(data, "data", 1);
  FASTMCMD_CHECK(n >= 1 && d >= 1, "data must have at least one row and one column");
  const Source* rows = read<Source>(data, "data", {n, d});
  return without_gil([&] {
    const execution run = with_threads(how, nanosecond * area(n, d), divide_up(n, tile_unit));
    return points<T>(rows, n, d, offset, table<T>().panel_width, run);
  });
}

// None, or an array that lives as long as this.
struct optional_array {
  explicit optional_array(const py::object& from) : is_given(!from.is_none()) {
    if (is_given) array = py::cast<py::array>(from);
  }
  // n numbers, or null
  const double* vector(const char* name, index_t n) const {
    return is_given ? read<double>(array, name, {n}) : nullptr;
  }

  bool is_given;
  py::array array;
};

template <class T>
points<T> make_points(const py::array& data, const py::object& offset, int threads) {
  const optional_array held(offset);
  const double* shift = held.vector("offset", length(data, "data", 1));
  const execution how = execution_with(threads);
  if (py::isinstance<py::array_t<float>>(data)) return pack_points<T, float>(data, shift, how);
  return pack_points<T, double>(data, shift, how);
}

template <class T>
void py_gram(const py::array& codes, const py::array& params, const points<T>& x,
             const points<T>& z, py::array out, int threads, index_t tile, bool symmetric) {
  const gram_source<T> source = make_source(codes, params, x, z, symmetric);
  FASTMCMD_CHECK(!symmetric || x.n() == z.n(), "symmetric needs the same points twice");
  T* to = write<T>(out, "out", {x.n(), z.n()});
  checked_tile(tile);
  without_gil([&] { gram(source, to, tile, execution_with(threads)); });
}

template <class T>
void py_matmul(const py::array& codes, const py::array& params, const points<T>& x,
               const points<T>& z, const py::array& v, py::array out, int threads, index_t tile) {
  const gram_source<T> source = make_source(codes, params, x, z, false);
  const index_t k = columns(v, "v");
  const T* from = read<T>(v, "v", {z.n(), k});
  double* to = write<double>(out, "out", {x.n(), k});
  checked_tile(tile);
  without_gil([&] { matmul(source, from, k, to, tile, execution_with(threads)); });
}

template <class T>
void py_symmetric_matmul(const py::array& codes, const py::array& params, const points<T>& x,
                         const py::array& v, py::array out, int threads, index_t tile) {
  const gram_source<T> source = make_source(codes, params, x, x, true);
  const index_t k = columns(v, "v");
  const T* from = read<T>(v, "v", {x.n(), k});
  double* to = write<double>(out, "out", {x.n(), k});
  checked_tile(tile);
  without_gil([&] { symmetric_matmul(source, from, k, to, tile, execution_with(threads)); });
}

template <class T>
void py_quadratic_forms(const py::array& codes, const py::array& params, const points<T>& x,
                        const py::array& c, py::array out, int threads, index_t tile) {
  const gram_source<T> source = make_source(codes, params, x, x, true);
  const index_t k = columns(c, "c");
  const T* from = read<T>(c, "c", {x.n(), k});
  double* to = write<double>(out, "out", {k});
  checked_tile(tile);
  without_gil([&] { quadratic_forms(source, from, k, to, tile, execution_with(threads)); });
}

template <class T>
void py_pack(const py::array& codes, const py::array& params, const points<T>& x, py::array tiles,
             int threads) {
  const gram_source<T> source = make_source(codes, params, x, x, true);
  const index_t tile = packed_tile(tiles, x.n());
  T* to = write<T>(tiles, "tiles", {any_size, any_size, any_size});
  without_gil([&] { pack(source, tile, to, execution_with(threads)); });
}

template <class T>
void py_pack_matmul(const py::array& codes, const py::array& params, const points<T>& x,
                    py::array tiles, const py::array& v, py::array out, int threads) {
  const gram_source<T> source = make_source(codes, params, x, x, true);
  const index_t tile = packed_tile(tiles, x.n(), true), k = columns(v, "v");
  T* cache = write<T>(tiles, "tiles", {any_size, any_size, any_size});
  const packed_tiles<T> to_tiles{cache, tile, length(tiles, "tiles", 0)};
  const T* from = read<T>(v, "v", {x.n(), k});
  double* to = write<double>(out, "out", {x.n(), k});
  without_gil([&] { pack_matmul(source, to_tiles, from, k, to, execution_with(threads)); });
}

template <class T>
packed_tiles<const T> tiles_of(const py::array& tiles, index_t tile) {
  return {read<T>(tiles, "tiles", {any_size, any_size, any_size}), tile, length(tiles, "tiles", 0)};
}

quantized_tiles<const uint16_t, const float> quantized_tiles_of(const py::array& tiles,
                                                                const py::array& scales,
                                                                index_t tile) {
  const packed_tiles<const uint16_t> codes = tiles_of<uint16_t>(tiles, tile);
  return {codes, read<float>(scales, "scales", {codes.count, tile, 2})};
}

void py_quantize_matmul(const py::array& codes, const py::array& params, const points<float>& x,
                        py::array tiles, py::array scales, const py::array& v, py::array out,
                        int threads) {
  const gram_source<float> source = make_source(codes, params, x, x, true);
  const index_t tile = packed_tile(tiles, x.n(), true), k = columns(v, "v");
  const index_t count = length(tiles, "tiles", 0);
  uint16_t* to_tiles = write<uint16_t>(tiles, "tiles", {any_size, any_size, any_size});
  float* to_scales = write<float>(scales, "scales", {count, tile, 2});
  const float* from = read<float>(v, "v", {x.n(), k});
  double* to = write<double>(out, "out", {x.n(), k});
  without_gil([&] {
    quantize_matmul(source, {{to_tiles, tile, count}, to_scales}, from, k, to, execution_with(threads));
  });
}

// out = K v from tiles in memory, and from `source`, where given, for the others.
template <class T, class Tiles>
void write_product(const Tiles& stored, const gram_source<T>* source, index_t n, const py::array& v,
                   py::array& out, int threads) {
  const index_t k = columns(v, "v");
  const T* from = read<T>(v, "v", {n, k});
  double* to = write<double>(out, "out", {n, k});
  without_gil([&] {
    packed_matmul(table<T>(), stored, source, n, from, k, to, execution_with(threads));
  });
}

void py_quantized_matmul(const py::array& tiles, const py::array& scales, index_t n,
                         const py::array& v, py::array out, int threads) {
  const auto stored = quantized_tiles_of(tiles, scales, packed_tile(tiles, n));
  write_product<float>(stored, nullptr, n, v, out, threads);
}

void py_partly_quantized_matmul(const py::array& codes, const py::array& params,
                                const points<float>& x, const py::array& tiles,
                                const py::array& scales, const py::array& v, py::array out,
                                int threads) {
  const gram_source<float> source = make_source(codes, params, x, x, true);
  const auto stored = quantized_tiles_of(tiles, scales, packed_tile(tiles, x.n(), true));
  write_product(stored, &source, x.n(), v, out, threads);
}

template <class T>
void py_partly_packed_matmul(const py::array& codes, const py::array& params, const points<T>& x,
                             const py::array& tiles, const py::array& v, py::array out, int threads) {
  const gram_source<T> source = make_source(codes, params, x, x, true);
  const auto stored = tiles_of<T>(tiles, packed_tile(tiles, x.n(), true));
  write_product(stored, &source, x.n(), v, out, threads);
}

// Calls f with a value of the array's scalar type.
template <class F>
auto with_dtype(const py::array& a, const char* name, const F& f) {
  if (py::isinstance<py::array_t<float>>(a)) return f(float());
  FASTMCMD_CHECK(py::isinstance<py::array_t<double>>(a),
                 std::string(name) + " must be float32 or float64");
  return f(double());
}

void py_packed_matmul(const py::array& tiles, index_t n, const py::array& v, py::array out,
                      int threads) {
  with_dtype(tiles, "tiles", [&](auto zero) {
    using T = decltype(zero);
    write_product<T>(tiles_of<T>(tiles, packed_tile(tiles, n)), nullptr, n, v, out, threads);
  });
}

void py_dense_matmul(const py::array& a, const py::array& v, py::array out, int threads,
                     index_t tile, bool transposed) {
  with_dtype(a, "a", [&](auto zero) {
    using T = decltype(zero);
    const index_t rows = length(a, "a", 0), cols = length(a, "a", 1), k = columns(v, "v");
    const T* data = read<T>(a, "a", {rows, cols});
    const strided_matrix<T> matrix = transposed ? strided_matrix<T>{data, cols, rows, 1, cols}
                                                : strided_matrix<T>{data, rows, cols, cols, 1};
    const index_t n = matrix.n, m = matrix.m;
    const T* from = read<T>(v, "v", {m, k});
    double* to = write<double>(out, "out", {n, k});
    checked_tile(tile);
    without_gil([&] {
      dense_matmul(table<T>(), matrix, from, k, to, tile, execution_with(threads));
    });
  });
}

void py_packed_add_diagonal(py::array tiles, index_t n, const py::array& diagonal) {
  with_dtype(tiles, "tiles", [&](auto zero) {
    using T = decltype(zero);
    const index_t tile = packed_tile(tiles, n);
    T* cache = write<T>(tiles, "tiles", {any_size, any_size, any_size});
    packed_add_diagonal(cache, n, tile, read<double>(diagonal, "diagonal", {n}));
  });
}

index_t py_packed_cholesky(py::array tiles, index_t n, int threads) {
  return with_dtype(tiles, "tiles", [&](auto zero) {
    using T = decltype(zero);
    const index_t tile = packed_tile(tiles, n);
    T* cache = write<T>(tiles, "tiles", {any_size, any_size, any_size});
    return without_gil([&] {
      return packed_factorisation<T>(table<T>(), cache, n, tile).run(execution_with(threads));
    });
  });
}

void solve(const py::array& tiles, index_t n, py::array& b, int threads, bool lower_only) {
  with_dtype(tiles, "tiles", [&](auto zero) {
    using T = decltype(zero);
    const index_t tile = packed_tile(tiles, n), k = columns(b, "b");
    const T* factor = read<T>(tiles, "tiles", {any_size, any_size, any_size});
    T* x = write<T>(b, "b", {n, k});
    without_gil([&] {
      packed_solve(table<T>(), factor, n, tile, x, k, lower_only, execution_with(threads));
    });
  });
}

template <class T>
void py_features(const py::array& codes, const py::array& params, const points<T>& landmarks,
                 const points<T>& x, const py::array& factor, py::object out, py::array squares,
                 py::object sizes, int threads) {
  const gram_source<T> source = make_source(codes, params, landmarks, x, false);
  const index_t p = landmarks.n(), n = x.n();
  const T* lower = read<T>(factor, "factor", {p, p});
  feature_outputs<T> to = {nullptr, write<double>(squares, "squares", {n}), nullptr};
  if (!out.is_none()) {
    py::array array = py::cast<py::array>(out);
    to.features = write<T>(array, "out", {p, n});
  }
  if (!sizes.is_none()) {
    py::array array = py::cast<py::array>(sizes);
    to.sizes = write<double>(array, "sizes", {n});
  }
  without_gil([&] { features(source, lower, to, execution_with(threads)); });
}

void py_feature_sums(const py::array& codes, const py::array& params,
                     const points<double>& landmarks, const points<double>& x,
                     const py::array& factor, index_t group, py::array squares, py::array sums,
                     int threads, bool differences) {
  const gram_source<double> source = make_source(codes, params, landmarks, x, false);
  const index_t p = landmarks.n(), n = x.n();
  FASTMCMD_CHECK(group >= 1 && n % group == 0, "x must have whole groups of rows");
  FASTMCMD_CHECK(!differences || group == 2, "differences need groups of two rows");
  const double* lower = read<double>(factor, "factor", {p, p});
  double* to = write<double>(squares, "squares", {n});
  double* total = write<double>(sums, "sums", {n / group, p});
  without_gil([&] {
    feature_sums(source, lower, group, differences, to, total, execution_with(threads));
  });
}

void py_eliminate(const py::array& rows, const py::array& at, const py::array& factor,
                  py::array fresh, int threads) {
  const index_t r = length(rows, "rows", 0), k = length(factor, "factor", 0);
  const index_t n = columns(fresh, "fresh");
  double* to = write<double>(fresh, "fresh", {k, n});
  const double* lower = read<double>(factor, "factor", {k, k});
  const double* left = r ? read<double>(rows, "rows", {r, n}) : nullptr;
  const double* right = r ? read<double>(at, "at", {r, k}) : nullptr;
  without_gil([&] {
    eliminate(table<double>(), left, right, r, lower, k, to, n, execution_with(threads));
  });
}

bool py_symmetric_eigen(py::array a, py::array values, bool vectors) {
  const index_t n = length(a, "a", 0);
  double* matrix = write<double>(a, "a", {n, n});
  double* to = write<double>(values, "values", {n});
  return without_gil([&] { return symmetric_eigen(matrix, n, vectors).run(to); });
}

void py_triangular_solve(const py::array& factor, py::array b, bool transposed, int threads) {
  with_dtype(factor, "factor", [&](auto zero) {
    using T = decltype(zero);
    const index_t p = length(factor, "factor", 0), n = columns(b, "b");
    const T* lower = read<T>(factor, "factor", {p, p});
    T* x = write<T>(b, "b", {p, n});
    without_gil([&] {
      triangular_solve(table<T>(), lower, p, x, n, transposed, execution_with(threads));
    });
  });
}

index_t py_pivoted_columns(const py::array& codes, const py::array& params,
                           const points<double>& x, const py::array& diagonal,
                           const py::array& worth, double limit, double noise,
                           py::array residual, py::array columns, py::array pivots,
                           index_t rank, index_t stop) {
  const gram_source<double> source = make_source(codes, params, x, x, true);
  const index_t n = x.n(), most = length(columns, "columns", 0), ld = length(columns, "columns", 1);
  FASTMCMD_CHECK(ld >= n && ld % table<double>().panel_width == 0,
                 "columns must hold whole panels of all points");
  FASTMCMD_CHECK(0 <= rank && rank <= stop && stop <= most && stop <= n,
                 "rank and stop must be in order and within columns");
  pivoting to = {read<double>(diagonal, "diagonal", {n}), read<double>(worth, "worth", {n}), limit,
                 noise, write<double>(residual, "residual", {n}),
                 write<double>(columns, "columns", {most, ld}), ld,
                 write<int64_t>(pivots, "pivots", {most})};
  for (index_t r = 0; r < rank; ++r) {
    FASTMCMD_CHECK(0 <= to.pivots[r] && to.pivots[r] < n, "pivots must be points");
  }
  return without_gil([&] { return pivoted_columns(source, to, rank, stop); });
}

void py_group_sums(const py::array& codes, const py::array& params, const points<double>& x,
                   const py::array& starts, const py::array& shares, index_t first, index_t stop,
                   py::array out, int threads) {
  const gram_source<double> source = make_source(codes, params, x, x, true);
  const index_t groups = length(starts, "starts", 0) - 1;
  FASTMCMD_CHECK(0 <= first && first < stop && stop <= groups, "first and stop must be groups in order");
  const point_groups of = {read<int64_t>(starts, "starts", {groups + 1}),
                           read<double>(shares, "shares", {x.n()})};
  FASTMCMD_CHECK(of.starts[0] == 0 && of.starts[groups] == x.n() &&
                     std::is_sorted(of.starts, of.starts + groups + 1),
                 "starts must ascend from 0 to the number of points");
  double* to = write<double>(out, "out", {stop - first, groups - first});
  without_gil([&] {
    group_sums(source, of, {first, stop}, groups, to, execution_with(threads));
  });
}

void py_self_product(const py::array& a, const py::object& weight, py::array out, int threads) {
  with_dtype(a, "a", [&](auto zero) {
    using T = decltype(zero);
    const index_t p = length(a, "a", 0), n = columns(a, "a");
    const T* from = read<T>(a, "a", {p, n});
    const optional_array held(weight);
    const double* w = held.vector("weight", n);
    double* to = write<double>(out, "out", {p, p});
    const sum_function add_sums = table<double>().add_to_double;
    without_gil([&] {
      self_product(table<T>(), add_sums, from, w, p, n, to, execution_with(threads));
    });
  });
}

tall_skinny_block<const double> read_block(const py::array& a, const char* name, index_t n, index_t k) {
  const index_t ld = row_distance<double>(a, name, n, k);
  return {static_cast<const double*>(a.data()), n, k, ld};
}

// One whose data are null for None.
tall_skinny_block<const double> read_block(const optional_array& a, const char* name, index_t n,
                                    index_t k) {
  return a.is_given ? read_block(a.array, name, n, k) : tall_skinny_block<const double>{nullptr, n, k, k};
}

tall_skinny_block<double> write_block(py::array& a, const char* name, index_t n, index_t k) {
  const index_t ld = row_distance<double>(a, name, n, k);
  FASTMCMD_CHECK(a.writeable(), std::string(name) + " must be writeable");
  return {static_cast<double*>(a.mutable_data()), n, k, ld};
}

void py_tall_skinny_inner(const py::array& a, const py::array& b, py::array out, int threads,
                          const py::object& scale) {
  const index_t n = length(a, "a", 0), k = columns(a, "a"), j = columns(b, "b");
  const tall_skinny_block<const double> left = read_block(a, "a", n, k), right = read_block(b, "b", n, j);
  double* to = write<double>(out, "out", {k, j});
  const optional_array held(scale);
  const double* factors = held.vector("scale", n);
  without_gil([&] {
    tall_skinny_inner(table<double>(), left, right, factors, to, execution_with(threads));
  });
}

void py_tall_skinny_times(const py::array& a, const py::array& small, py::array out, int threads,
                   const py::object& base, double sign) {
  const index_t n = length(a, "a", 0), k = columns(a, "a"), j = columns(small, "small");
  const tall_skinny_block<const double> left = read_block(a, "a", n, k);
  const tall_skinny_block<const double> right = read_block(small, "small", k, j);
  const tall_skinny_block<double> to = write_block(out, "out", n, j);
  FASTMCMD_CHECK(to.data != left.data || (k == j && to.ld == left.ld),
                 "out can be a only where it is as wide");
  const optional_array held(base);
  const tall_skinny_block<const double> under = read_block(held, "base", n, j);
  without_gil([&] {
    tall_skinny_times(table<double>(), left, right, under, sign, to, execution_with(threads));
  });
}

void py_tall_skinny_scale(const py::array& scale, const py::array& a, py::array out, int threads,
                   const py::object& base) {
  const index_t n = length(a, "a", 0), k = columns(a, "a");
  const tall_skinny_block<const double> from = read_block(a, "a", n, k);
  const tall_skinny_block<double> to = write_block(out, "out", n, k);
  const double* factors = read<double>(scale, "scale", {n});
  const optional_array held(base);
  const tall_skinny_block<const double> under = read_block(held, "base", n, k);
  without_gil([&] { tall_skinny_scale(factors, from, under, to, execution_with(threads)); });
}

py::tuple py_tall_skinny_residual(const py::array& rhs, const py::array& shift, const py::array& value,
                                  const py::array& image, py::array out, int threads) {
  const index_t n = length(rhs, "rhs", 0), k = columns(rhs, "rhs");
  const tall_skinny_block<const double> p = read_block(rhs, "rhs", n, k);
  const tall_skinny_block<const double> b = read_block(value, "value", n, k);
  const tall_skinny_block<const double> kb = read_block(image, "image", n, k);
  const tall_skinny_block<double> to = write_block(out, "out", n, k);
  const double* diagonal = read<double>(shift, "shift", {n});
  const residual_sums sums = without_gil(
      [&] { return tall_skinny_residual(p, diagonal, b, kb, to, execution_with(threads)); });
  return py::make_tuple(sums.shifts, sums.values, sums.operands, sums.residuals);
}

void py_tall_skinny_spread(const py::array& a, const py::array& source, const py::array& where,
                           const py::array& share, py::array out, int threads) {
  const index_t n = length(a, "a", 0), k = columns(a, "a");
  const index_t m = length(share, "share", 0), u = length(out, "out", 0);
  const tall_skinny_block<const double> from = read_block(a, "a", n, k);
  const tall_skinny_block<double> to = write_block(out, "out", u, k);
  const int64_t* sources = read<int64_t>(source, "source", {m});
  const int64_t* places = read<int64_t>(where, "where", {m});
  const double* factors = read<double>(share, "share", {m});
  for (index_t i = 0; i < m; ++i) {
    FASTMCMD_CHECK(0 <= sources[i] && sources[i] < n, "source must be rows of a");
    FASTMCMD_CHECK(0 <= places[i] && places[i] < u, "where must be rows of out");
  }
  without_gil(
      [&] { tall_skinny_spread(from, sources, places, factors, m, to, execution_with(threads)); });
}

void py_row_hashes(const py::array& x, const py::array& factors, py::array out, int threads) {
  with_dtype(x, "x", [&](auto zero) {
    using T = decltype(zero);
    const index_t n = length(x, "x", 0), d = columns(x, "x");
    const index_t ld = row_distance<T>(x, "x", n, d);
    const T* rows = static_cast<const T*>(x.data());
    const uint64_t* odd = read<uint64_t>(factors, "factors", {d});
    uint64_t* to = write<uint64_t>(out, "out", {n});
    without_gil([&] { row_hashes(rows, n, d, ld, odd, to, execution_with(threads)); });
  });
}

bool py_all_finite(const py::array& x, int threads) {
  FASTMCMD_CHECK(x.flags() & py::array::c_style, "x must be C-contiguous");
  return with_dtype(x, "x", [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(x.data());
    return without_gil([&] { return all_finite(from, x.size(), execution_with(threads)); });
  });
}

double py_row_squares(const py::array& x, py::array out, int threads, const py::object& offset) {
  return with_dtype(x, "x", [&](auto zero) {
    using T = decltype(zero);
    const index_t n = length(x, "x", 0), d = columns(x, "x");
    const T* rows = read<T>(x, "x", {n, d});
    const optional_array held(offset);
    const double* shift = held.vector("offset", d);
    double* to = write<double>(out, "out", {n});
    return without_gil([&] { return row_squares(rows, n, d, shift, to, execution_with(threads)); });
  });
}

void py_rbf_of_normals(double gamma, const std::vector<py::array>& gaps,
                       const std::vector<py::array>& widers, py::array out, int threads) {
  const index_t n = length(out, "out", 0), m = columns(out, "out");
  FASTMCMD_CHECK(gaps.size() == widers.size(), "gaps and widers must be as many");
  std::vector<normal_component> components;
  for (size_t c = 0; c < gaps.size(); ++c) {
    const index_t width = columns(widers[c], "widers");
    FASTMCMD_CHECK(width == 1 || width == m, "widers must have one column or all");
    components.push_back({read<double>(gaps[c], "gaps", {n, m}),
                          read<double>(widers[c], "widers", {n, width}), width});
  }
  double* to = write<double>(out, "out", {n, m});
  without_gil([&] {
    rbf_of_normals(table<double>(), gamma, components, n, m, to, execution_with(threads));
  });
}

void py_rbf_of_normal_pairs(double gamma, const std::vector<py::array>& means,
                            const std::vector<py::array>& wides, const std::vector<py::array>& againsts,
                            const std::vector<py::array>& spreads, py::array out, int threads) {
  const index_t n = length(out, "out", 0), m = columns(out, "out");
  FASTMCMD_CHECK(means.size() == wides.size() && means.size() == againsts.size() &&
                     means.size() == spreads.size(),
                 "means, wides, againsts and spreads must be as many");
  std::vector<paired_component> components;
  for (size_t c = 0; c < means.size(); ++c) {
    components.push_back({read<double>(means[c], "means", {n}), read<double>(wides[c], "wides", {n}),
                          read<double>(againsts[c], "againsts", {m}),
                          read<double>(spreads[c], "spreads", {m})});
  }
  double* to = write<double>(out, "out", {n, m});
  without_gil([&] {
    rbf_of_normal_pairs(table<double>(), gamma, components, n, m, to, execution_with(threads));
  });
}

py::array py_exp(const py::array& x) {
  return with_dtype(x, "x", [&](auto zero) {
    using T = decltype(zero);
    const index_t n = length(x, "x", 0);
    const T* from = read<T>(x, "x", {n});
    py::array_t<T> out(n);
    table<T>().exp(n, from, out.mutable_data());
    return py::array(out);
  });
}

template <class T>
void bind_scalar(py::module_& m, const char* name) {
  py::class_<points<T>>(m, name, docs::points)
      .def(py::init(&make_points<T>), "data"_a, "offset"_a = py::none(), "threads"_a = 1)
      .def_property_readonly("n", &points<T>::n, "Number of points.")
      .def_property_readonly("d", &points<T>::d, "Number of coordinates.")
      .def_property_readonly("nbytes", &points<T>::nbytes, "Bytes held.");
  m.def("gram", &py_gram<T>, docs::gram, "codes"_a, "params"_a, "x"_a, "z"_a, "out"_a,
        "threads"_a, py::kw_only(), "tile"_a = 256, "symmetric"_a = false);
  m.def("matmul", &py_matmul<T>, docs::matmul, "codes"_a, "params"_a, "x"_a, "z"_a, "v"_a,
        "out"_a, "threads"_a, py::kw_only(), "tile"_a = 256);
  m.def("symmetric_matmul", &py_symmetric_matmul<T>, docs::symmetric_matmul, "codes"_a,
        "params"_a, "x"_a, "v"_a, "out"_a, "threads"_a, py::kw_only(), "tile"_a = 256);
  m.def("quadratic_forms", &py_quadratic_forms<T>, docs::quadratic_forms, "codes"_a, "params"_a,
        "x"_a, "c"_a, "out"_a, "threads"_a, py::kw_only(), "tile"_a = 256);
  m.def("features", &py_features<T>, docs::features, "codes"_a, "params"_a, "landmarks"_a, "x"_a,
        "factor"_a, "out"_a, "squares"_a, "sizes"_a, "threads"_a);
  m.def("pack", &py_pack<T>, docs::pack, "codes"_a, "params"_a, "x"_a, "tiles"_a, "threads"_a);
  m.def("pack_matmul", &py_pack_matmul<T>, docs::pack_matmul, "codes"_a, "params"_a, "x"_a,
        "tiles"_a, "v"_a, "out"_a, "threads"_a);
  m.def("partly_packed_matmul", &py_partly_packed_matmul<T>, docs::partly_packed_matmul, "codes"_a,
        "params"_a, "x"_a, "tiles"_a, "v"_a, "out"_a, "threads"_a);
}

py::dict op_numbers() {
  py::dict numbers;
#define FASTMCMD_OP(name) numbers[#name] = int(op_##name);
  FASTMCMD_OPS(FASTMCMD_OP)
#undef FASTMCMD_OP
  return numbers;
}

}  // namespace
}  // namespace fastmcmd

PYBIND11_MODULE(_core, m) {
  using namespace fastmcmd;
  m.doc() = "Tiles: Gram matrices, fused products with them, blocked Cholesky. Loops over rows.";
  try {
    isa();
  } catch (const std::runtime_error& error) {
    throw py::import_error(error.what());
  }
  // Overloads are tried in this order, which takes microseconds: small problems are in float64.
  bind_scalar<double>(m, "PointsF64");
  bind_scalar<float>(m, "PointsF32");
  m.def("packed_matmul", &py_packed_matmul, docs::packed_matmul, "tiles"_a, "n"_a, "v"_a, "out"_a,
        "threads"_a);
  m.def("quantize_matmul", &py_quantize_matmul, docs::quantize_matmul, "codes"_a, "params"_a, "x"_a,
        "tiles"_a, "scales"_a, "v"_a, "out"_a, "threads"_a);
  m.def("quantized_matmul", &py_quantized_matmul, docs::quantized_matmul, "tiles"_a, "scales"_a,
        "n"_a, "v"_a, "out"_a, "threads"_a);
  m.def("partly_quantized_matmul", &py_partly_quantized_matmul, docs::partly_quantized_matmul,
        "codes"_a, "params"_a, "x"_a, "tiles"_a, "scales"_a, "v"_a, "out"_a, "threads"_a);
  m.def("dense_matmul", &py_dense_matmul, docs::dense_matmul, "a"_a, "v"_a, "out"_a, "threads"_a,
        py::kw_only(), "tile"_a = 256, "transposed"_a = false);
  m.def("feature_sums", &py_feature_sums, docs::feature_sums, "codes"_a, "params"_a, "landmarks"_a,
        "x"_a, "factor"_a, "group"_a, "squares"_a, "sums"_a, "threads"_a, py::kw_only(),
        "differences"_a = false);
  m.def("eliminate", &py_eliminate, docs::eliminate, "rows"_a, "at"_a, "factor"_a, "fresh"_a,
        "threads"_a);
  m.def("symmetric_eigen", &py_symmetric_eigen, docs::symmetric_eigen, "a"_a, "values"_a,
        "vectors"_a);
  m.def("triangular_solve", &py_triangular_solve, docs::triangular_solve, "factor"_a, "b"_a,
        "transposed"_a, "threads"_a);
  m.def("pivoted_columns", &py_pivoted_columns, docs::pivoted_columns, "codes"_a, "params"_a, "x"_a,
        "diagonal"_a, "worth"_a, "limit"_a, "noise"_a, "residual"_a, "columns"_a, "pivots"_a,
        "rank"_a, "stop"_a);
  m.def("group_sums", &py_group_sums, docs::group_sums, "codes"_a, "params"_a, "x"_a, "starts"_a,
        "shares"_a, "first"_a, "stop"_a, "out"_a, "threads"_a);
  m.def("self_product", &py_self_product, docs::self_product, "a"_a, "weight"_a, "out"_a,
        "threads"_a);
  m.def("tall_skinny_inner", &py_tall_skinny_inner, docs::tall_skinny_inner, "a"_a, "b"_a, "out"_a, "threads"_a,
        py::kw_only(), "scale"_a = py::none());
  m.def("tall_skinny_times", &py_tall_skinny_times, docs::tall_skinny_times, "a"_a, "small"_a, "out"_a, "threads"_a,
        py::kw_only(), "base"_a = py::none(), "sign"_a = 1.0);
  m.def("tall_skinny_scale", &py_tall_skinny_scale, docs::tall_skinny_scale, "scale"_a, "a"_a, "out"_a, "threads"_a,
        py::kw_only(), "base"_a = py::none());
  m.def("tall_skinny_residual", &py_tall_skinny_residual, docs::tall_skinny_residual, "rhs"_a, "shift"_a,
        "value"_a, "image"_a, "out"_a, "threads"_a);
  m.def("tall_skinny_spread", &py_tall_skinny_spread, docs::tall_skinny_spread, "a"_a, "source"_a,
        "where"_a, "share"_a, "out"_a, "threads"_a);
  m.def("row_hashes", &py_row_hashes, docs::row_hashes, "x"_a, "factors"_a, "out"_a, "threads"_a);
  m.def("all_finite", &py_all_finite, docs::all_finite, "x"_a, "threads"_a);
  m.def("row_squares", &py_row_squares, docs::row_squares, "x"_a, "out"_a, "threads"_a,
        py::kw_only(), "offset"_a = py::none());
  m.def("packed_add_diagonal", &py_packed_add_diagonal, docs::packed_add_diagonal, "tiles"_a,
        "n"_a, "diagonal"_a);
  m.def("packed_cholesky", &py_packed_cholesky, docs::packed_cholesky, "tiles"_a, "n"_a,
        "threads"_a);
  m.def(
      "packed_solve",
      [](const py::array& tiles, index_t n, py::array b, int threads) {
        solve(tiles, n, b, threads, false);
      },
      docs::packed_solve, "tiles"_a, "n"_a, "b"_a, "threads"_a);
  m.def(
      "packed_solve_lower",
      [](const py::array& tiles, index_t n, py::array b, int threads) {
        solve(tiles, n, b, threads, true);
      },
      docs::packed_solve_lower, "tiles"_a, "n"_a, "b"_a, "threads"_a);
  m.def("rbf_of_normals", &py_rbf_of_normals, docs::rbf_of_normals, "gamma"_a, "gaps"_a, "widers"_a,
        "out"_a, "threads"_a);
  m.def("rbf_of_normal_pairs", &py_rbf_of_normal_pairs, docs::rbf_of_normal_pairs, "gamma"_a, "means"_a,
        "wides"_a, "againsts"_a, "spreads"_a, "out"_a, "threads"_a);
  m.def("exp", &py_exp, docs::exp, "x"_a);
  m.def(
      "row_array", [](index_t n) { return row_memory::instance().array(n); }, docs::row_array, "n"_a);
  m.def(
      "isa", [] { return std::string(isa().name); }, "Name of the instruction set in use.");
  m.def(
      "available_isas",
      [] {
        py::list names;
        for (const std::string& name : available_isas()) names.append(name);
        return names;
      },
      "Names of the instruction sets this machine can run, slowest first.");
#ifndef FASTMCMD_WITHOUT_LOOPS
  bind_loops(m, *isa().loops);
#endif
  m.attr("OPS") = op_numbers();
  m.attr("TILE_UNIT") = tile_unit;
  m.attr("DIRECT_DISTANCE_LIMIT") = direct_distance_limit;
#ifdef FASTMCMD_DEBUG
  m.attr("NDEBUG") = false;
#else
  m.attr("NDEBUG") = true;
#endif
}
