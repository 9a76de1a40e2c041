// The elementary functions in which maps are written, for float and double on CPU and GPU. A vector
// type joins by overloading them (found through argument-dependent lookup). Names are whole words
// because Exp, Cos and others are maps.
#ifndef FAVOR_KERNELS_PORTABLE_H_
#define FAVOR_KERNELS_PORTABLE_H_

#include <cmath>
#include <concepts>

#if defined(__CUDACC__)
#define FAVOR_HOST_DEVICE __host__ __device__
#else
#define FAVOR_HOST_DEVICE
#endif

namespace favor::kernels {

template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Exponential(T x) {
  return std::exp(x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Logarithm(T x) {
  return std::log(x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T LogOnePlus(T x) {
  return std::log1p(x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Sine(T x) {
  return std::sin(x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T Cosine(T x) {
  return std::cos(x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T HyperbolicTangent(T x) {
  return std::tanh(x);
}
template <std::floating_point T>
FAVOR_HOST_DEVICE inline T ErrorFunction(T x) {
  return std::erf(x);
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

#endif  // FAVOR_KERNELS_PORTABLE_H_
