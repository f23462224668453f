// Constants of exp by magic-number range reduction: x = n ln 2 + r, |r| <= ln 2 / 2, exp x = 2^n p(r) with
// p(r) = 1 + r + r^2 q(r), q interpolating (exp r - 1 - r) / r^2 at Chebyshev nodes. The relative
// error of p is 1.0e-8 at degree 6 (float32) and 1.7e-17 at degree 11 (float64); exp 0 is 1.
#pragma once

namespace fastmcmd {
namespace FASTMCMD_ISA_NAMESPACE {

template <class T>
struct exp_constants;

template <>
struct exp_constants<float> {
  // 1.5 * 2^23 + 127: adding it rounds to an integer and leaves n + 127 in the low bits.
  static constexpr float magic = 12583039.0f;
  static constexpr float log2_e = 1.44269504088896341f;
  static constexpr float ln2_high = 0.693359375f;
  static constexpr float ln2_low = -2.12194440054690582e-4f;
  static constexpr float lowest = -88.0296919f;   // -127 ln 2
  static constexpr float highest = 88.7228394f;  // from here on n = 128, whose scale is infinite
  static constexpr int count = 5;
  static constexpr float q[count] = {1.392618359e-3f, 8.363179053e-3f, 4.166655462e-2f,
                                     1.666657699e-1f, 0.5f};
};

template <>
struct exp_constants<double> {
  static constexpr double magic = 6755399441056767.0;  // 1.5 * 2^52 + 1023
  static constexpr double log2_e = 1.44269504088896340736;
  static constexpr double ln2_high = 0.6931471803691238;
  static constexpr double ln2_low = 1.9082149292705878161e-10;
  static constexpr double lowest = -709.08956571282405;  // -1023 ln 2
  static constexpr double highest = 709.78271289338397;
  static constexpr int count = 10;
  static constexpr double q[count] = {
      2.51003854955103191e-8, 2.76200884454097482e-7, 2.75572684599970648e-6,
      2.48015212959543751e-5, 1.98412698630536169e-4, 1.38888889172137169e-3,
      8.33333333333006183e-3, 4.16666666666241279e-2, 1.66666666666666675e-1,
      0.5};
};

}  // namespace FASTMCMD_ISA_NAMESPACE
}  // namespace fastmcmd
