// kLanes floats as one value. The compiler's vector extension maps it to whatever registers there
// are.
#ifndef FAVOR_KERNELS_CPU_LANES_H_
#define FAVOR_KERNELS_CPU_LANES_H_

#include <cstdint>
#include <cstring>

namespace favor::kernels::cpu {

constexpr int64_t kLanes = 16;

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t IntLanes __attribute__((vector_size(kLanes * sizeof(int32_t))));

inline Lanes LoadLanes(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
inline void StoreLanes(const Lanes& lanes, float* to) { std::memcpy(to, &lanes, sizeof lanes); }
inline Lanes Fill(float value) { return Lanes{} + value; }
inline Lanes Max(const Lanes& a, const Lanes& b) { return a > b ? a : b; }
inline Lanes Min(const Lanes& a, const Lanes& b) { return a < b ? a : b; }

// e^x for x ≤ 88: 2^n·p(r) with n = round(x·log2 e), |r| ≤ ln 2/2 and p the Taylor polynomial of
// degree 7, whose remainder is 5e-9. Relative error below 2.5e-7 (a test measures it); 0 below
// −87.3, where floats turn subnormal, and at −∞.
inline Lanes Exp(const Lanes& x) {
  constexpr float kLog2E = 1.44269504f,
                  kRound = 12582912.0f;  // 1.5·2²³: adding it rounds to an integer
  constexpr float kLn2High = 0.693359375f,
                  kLn2Low = -2.12194440e-4f;  // the first has 9 bits: n·kLn2High is exact
  const Lanes bounded = Max(x, Fill(-88.0f));
  const Lanes n = (bounded * kLog2E + kRound) - kRound;
  const Lanes r = (bounded - n * kLn2High) - n * kLn2Low;
  Lanes p = Fill(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const IntLanes exponent = (__builtin_convertvector(n, IntLanes) + 127) << 23;
  Lanes power;
  std::memcpy(&power, &exponent, sizeof power);
  return x < -87.3f ? Lanes{} : p * power;
}

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_LANES_H_
