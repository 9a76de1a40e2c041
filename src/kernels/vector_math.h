// Elementary functions of floats without branches or calls, so that a loop over them becomes SIMD
// code on any target. Errors are against the exact value (a test measures them).
#ifndef FAVOR_KERNELS_VECTOR_MATH_H_
#define FAVOR_KERNELS_VECTOR_MATH_H_

#include <bit>
#include <cstdint>

namespace favor::kernels::vector_math {

// Adding and then subtracting it rounds to an integer.
constexpr float kRound = 12582912.0f;  // 1.5·2²³

// e^r on |r| ≤ ln 2/2 is 1 + r + r²·(c₀ + … + c₄ r⁴), relative error 3.1e-9 (minimax).
constexpr float kExpCoefficients[] = {0.4999999403953552f, 0.1666652113199234f,
                                      0.04166838899254799f, 0.00836874544620514f,
                                      0.0013814540579915047f};
constexpr float kLog2E = 1.44269504f;
constexpr float kLn2High = 0.693359375f;  // 9 bits: n·kLn2High is exact
constexpr float kLn2Low = -2.12194440e-4f;
constexpr float kLeastExpArgument = -87.33f, kLargestExpArgument = 88.37f;  // results stay normal

inline float Select(bool condition, float yes, float no) { return condition ? yes : no; }

// Relative error below 1.6e-7; constant below −87.33 (1.2e-38) and above 88.37 (2.4e38).
inline float Exp(float x) {
  x = Select(x < kLeastExpArgument, kLeastExpArgument, x);
  x = Select(x > kLargestExpArgument, kLargestExpArgument, x);
  const float shifted = x * kLog2E + kRound, n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = kExpCoefficients[4];
  p = p * r + kExpCoefficients[3];
  p = p * r + kExpCoefficients[2];
  p = p * r + kExpCoefficients[1];
  p = p * r + kExpCoefficients[0];
  const float e = 1 + (r + r * r * p);
  // The low bits of `shifted` are n: moved up, they are the exponent of 2ⁿ. (NaN stays NaN; as an
  // integer it would be undefined.)
  return e * std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127) << 23);
}

// ln(1 + x) for 0 ≤ x ≤ 1: 2·atanh(x/(2 + x)). Absolute error below 1.4e-7.
inline float LogOnePlus(float x) {
  const float s = x / (2 + x), t = s * s;
  float p = 2.0f / 15;
  p = p * t + 2.0f / 13;
  p = p * t + 2.0f / 11;
  p = p * t + 2.0f / 9;
  p = p * t + 2.0f / 7;
  p = p * t + 2.0f / 5;
  p = p * t + 2.0f / 3;
  return s * (2 + t * p);
}

// sin and cos: x = n·π/2 + r with π/2 in three parts, then polynomials on |r| ≤ π/4. Absolute error
// below 1.3e-7 for |x| < 8000; beyond, it grows like the spacing of floats, 1e-7·|x|, the precision
// of x itself. Results stay within ±1.
struct Reduced {
  float r, quarter;  // quarter: n modulo 4, in −2 … 2
};
inline Reduced ReduceQuarter(float x) {
  constexpr float kTwoOverPi = 0.636619772f, kMost = 0.8f;  // π/4 and what rounding of n adds
  // 8 and 11 bits: their products with n are exact up to n = 2¹³.
  constexpr float kHalfPiHigh = 1.5703125f, kHalfPiMiddle = 4.837512969970703125e-4f,
                  kHalfPiLow = 7.54978995489188216e-8f;
  const float n = (x * kTwoOverPi + kRound) - kRound;
  float r = ((x - n * kHalfPiHigh) - n * kHalfPiMiddle) - n * kHalfPiLow;
  r = Select(r > kMost, kMost, r);
  r = Select(r < -kMost, -kMost, r);
  const float quarter = n - 4 * ((n * 0.25f + kRound) - kRound);
  return {r, quarter};
}
inline float SineNearZero(float r) {
  const float t = r * r;
  const float p = (-0.00019516656175255775f * t + 0.008332173340022564f) * t - 0.16666655242443085f;
  return r + r * t * p;
}
inline float CosineNearZero(float r) {
  const float t = r * r;
  const float p = (2.4437729734927416e-05f * t - 0.001388736185617745f) * t + 0.04166664555668831f;
  return 1 - 0.5f * t + t * t * p;
}
inline float Sine(float x) {
  const Reduced a = ReduceQuarter(x);
  const float s = SineNearZero(a.r), c = CosineNearZero(a.r);
  const float q = a.quarter;
  const float odd = Select(q > 0, c, -c), even = Select(q == 0, s, -s);
  return Select(q * q == 1, odd, even);
}
inline float Cosine(float x) {
  const Reduced a = ReduceQuarter(x);
  const float s = SineNearZero(a.r), c = CosineNearZero(a.r);
  const float q = a.quarter;
  const float odd = Select(q > 0, -s, s), even = Select(q == 0, c, -c);
  return Select(q * q == 1, odd, even);
}

// Near 0 a polynomial, else (1 − e)/(1 + e) with e = e^{−2|x|}. Absolute error below 1.2e-7.
inline float HyperbolicTangent(float x) {
  const float a = x < 0 ? -x : x, t = x * x;
  float p = -0.005693518556654453f;
  p = p * t + 0.020630409941077232f;
  p = p * t - 0.053737614303827286f;
  p = p * t + 0.13331425189971924f;
  p = p * t - 0.3333328068256378f;
  const float near = x + x * t * p;
  const float e = Exp(-2 * a), far = (1 - e) / (1 + e);
  return Select(a < 0.625f, near, Select(x < 0, -far, far));
}

// Near 0 a polynomial, else 1 − e^{−x²}·p(1/(1 + x/2)), where `gauss` is e^{−x²}. Absolute error
// below 1.6e-7.
inline float ErrorFunctionWith(float x, float gauss) {
  const float a = x < 0 ? -x : x, bounded = Select(a > 4.2f, 4.2f, a), t = bounded * bounded;
  float p = 7.853861461626366e-05f;
  p = p * t - 0.0008010193705558777f;
  p = p * t + 0.005188327748328447f;
  p = p * t - 0.026853812858462334f;
  p = p * t + 0.1128358542919159f;
  p = p * t - 0.3761262595653534f;
  p = p * t + 1.1283791065216064f;
  const float s = 1 / (1 + 0.5f * bounded);
  float q = -0.22971521317958832f;
  q = q * s + 0.633517324924469f;
  q = q * s - 0.06078976020216942f;
  q = q * s + 0.39467883110046387f;
  q = q * s + 0.2603125274181366f;
  q = q * s + 0.0017521899426355958f;
  const float far = 1 - gauss * q;
  return Select(a < 1, x * p, Select(x < 0, -far, far));
}
inline float ErrorFunction(float x) { return ErrorFunctionWith(x, Exp(-x * x)); }

}  // namespace favor::kernels::vector_math

#endif  // FAVOR_KERNELS_VECTOR_MATH_H_
