// The stage for formulas.h on a device: plain numbers of one precision, FASTMCMD_REAL.
//
// Arguments of kernels are pointers and index_t alone, and no kernel needs its neighbours' results, so
// that a C++ compiler can run them on a CPU, thread after thread: tests do.
#define FASTMCMD_ISA_NAMESPACE device
#define FASTMCMD_FORMULA __device__ __forceinline__

typedef long long index_t;
typedef FASTMCMD_REAL real;

namespace fastmcmd {
namespace device {

struct number_math {
  typedef real value;
  static __device__ __forceinline__ real constant(double c) { return static_cast<real>(c); }
  static __device__ __forceinline__ real absolute(real v) { return v < 0 ? -v : v; }
  static __device__ __forceinline__ float root(float v) { return sqrtf(v); }
  static __device__ __forceinline__ double root(double v) { return sqrt(v); }
  static __device__ __forceinline__ float exp_of_negative(float v) { return expf(v); }
  static __device__ __forceinline__ double exp_of_negative(double v) { return exp(v); }
  static __device__ __forceinline__ real raised(real v, double degree) {
    return static_cast<real>(pow(static_cast<double>(v), degree));
  }
  static __device__ __forceinline__ float scaled(float v, int exponent) { return ldexpf(v, exponent); }
  static __device__ __forceinline__ double scaled(double v, int exponent) { return ldexp(v, exponent); }
  static __device__ __forceinline__ real if_less(real a, real b, real yes, real no) {
    return a < b ? yes : no;
  }
  static __device__ __forceinline__ real if_unequal(real a, real b, real yes, real no) {
    return a != b ? yes : no;
  }
};

// This thread's place in a grid of one or two dimensions.
__device__ __forceinline__ index_t thread_x() {
  return static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ index_t thread_y() {
  return static_cast<index_t>(blockIdx.y) * blockDim.y + threadIdx.y;
}

}  // namespace device
}  // namespace fastmcmd
