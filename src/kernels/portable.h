// The elementary functions that maps are written with, for float and double on CPU and GPU. For
// floats on a CPU they are the branch-free ones of vector_math.h, so that a loop over a map becomes
// SIMD code. Names are whole words because Exp, Cos and others are maps.
#ifndef FAVOR_KERNELS_PORTABLE_H_
#define FAVOR_KERNELS_PORTABLE_H_

#include <cmath>
#include <concepts>
#include <type_traits>

#include "core/host_device.h"
#include "kernels/vector_math.h"

#if defined(__CUDA_ARCH__)
#define FAVOR_FLOAT_OR_DOUBLE(function, standard, x) return standard(x)
#else
#define FAVOR_FLOAT_OR_DOUBLE(function, standard, x) \
  if constexpr (std::is_same_v<T, float>)            \
    return vector_math::function(x);                 \
  else                                               \
    return standard(x)
#endif

namespace favor::kernels {

template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Exponential(T x) {
  FAVOR_FLOAT_OR_DOUBLE(Exp, std::exp, x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Logarithm(T x) {
  return std::log(x);
}
// For 0 ≤ x ≤ 1.
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T LogOnePlus(T x) {
  FAVOR_FLOAT_OR_DOUBLE(LogOnePlus, std::log1p, x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Sine(T x) {
  FAVOR_FLOAT_OR_DOUBLE(Sine, std::sin, x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Cosine(T x) {
  FAVOR_FLOAT_OR_DOUBLE(Cosine, std::cos, x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T HyperbolicTangent(T x) {
  FAVOR_FLOAT_OR_DOUBLE(HyperbolicTangent, std::tanh, x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T ErrorFunction(T x) {
  FAVOR_FLOAT_OR_DOUBLE(ErrorFunction, std::erf, x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Absolute(T x) {
  return std::fabs(x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Max(T x, T y) {
  return x > y ? x : y;
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Min(T x, T y) {
  return x < y ? x : y;
}
// u > 0 ? yes : no, element by element.
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T IfPositive(T u, T yes, T no) {
  return u > T(0) ? yes : no;
}

}  // namespace favor::kernels

#undef FAVOR_FLOAT_OR_DOUBLE

#endif  // FAVOR_KERNELS_PORTABLE_H_
