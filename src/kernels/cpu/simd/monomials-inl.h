// Monomials of a row as columns of φ, for the SIMD target being compiled. Vectors run past the end
// of a run of monomials: what they write there is overwritten by the next run, and the padding of a
// row is cleared. The polynomial of `taylor`, which trains best, has loops of its own: nothing is
// kept between them, and its gradient stays in registers.
#if defined(FAVOR_KERNELS_CPU_SIMD_MONOMIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_MONOMIALS_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_MONOMIALS_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_MONOMIALS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm-inl.h"
#include "kernels/polynomial_shape.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// 1 + s + s²/2.
inline bool IsTaylor(const PolynomialShape& shape) {
  return shape.coefficients == std::vector<double>{1, 1, 0.5} && !shape.IsRandom();
}

// x is followed by a vector of zeros, and so are the factors afterwards.
HWY_INLINE void TaylorFactors(const float* HWY_RESTRICT x, int64_t dim,
                              float* HWY_RESTRICT factors) {
  const FloatTag d;
  const Floats root = hn::Set(d, 0.70710678118654752440f);
  float *linear = factors + 1, *squares = linear + dim, *pairs = squares + dim;
  factors[0] = 1;
  for (int64_t i = 0; i < dim; i += Lanes()) hn::StoreU(hn::LoadU(d, x + i), d, linear + i);
  for (int64_t i = 0; i < dim; i += Lanes()) {
    const Floats value = hn::LoadU(d, x + i);
    hn::StoreU(hn::Mul(hn::Mul(value, value), root), d, squares + i);
  }
  for (int64_t distance = 1; distance < dim; ++distance) {
    for (int64_t i = 0; i < dim - distance; i += Lanes())
      hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, x + i + distance)), d, pairs + i);
    pairs += dim - distance;
  }
}

// A vector of zeros precedes x and follows x and grad_factors; a vector after grad_x may be
// overwritten. `after` sums over partners x[i + distance], `before` over partners x[i − distance].
HWY_INLINE void TaylorBackward(const float* HWY_RESTRICT x, int64_t dim,
                               const float* HWY_RESTRICT grad_factors, float* HWY_RESTRICT grad_x) {
  const FloatTag d;
  const Floats root = hn::Set(d, 1.41421356237309504880f);
  const float *linear = grad_factors + 1, *squares = linear + dim;
  for (int64_t i = 0; i < dim; i += Lanes()) {
    Floats after = hn::MulAdd(hn::Mul(root, hn::LoadU(d, squares + i)), hn::LoadU(d, x + i),
                              hn::LoadU(d, linear + i));
    Floats before = hn::Zero(d);
    const float* pairs = squares + dim;
    for (int64_t distance = 1; distance < dim; ++distance) {
      if (i < dim - distance)
        after = hn::MulAdd(hn::LoadU(d, pairs + i), hn::LoadU(d, x + i + distance), after);
      if (i + Lanes() > distance)
        before =
            hn::MulAdd(hn::LoadU(d, pairs + i - distance), hn::LoadU(d, x + i - distance), before);
      pairs += dim - distance;
    }
    hn::StoreU(hn::Add(after, before), d, grad_x + i);
  }
}

// Columns of any polynomial. `monomials` holds those of all degrees on return, without weights, and
// a vector more than shape.monomials; a vector of zeros follows x, and columns that are not
// monomials are left.
HWY_INLINE void MonomialFactors(const float* HWY_RESTRICT x, const PolynomialShape& shape,
                                float* HWY_RESTRICT monomials, float* HWY_RESTRICT factors) {
  const FloatTag d;
  if (!shape.blocks.empty() && shape.blocks[0].degree == 0)
    factors[shape.blocks[0].first] =
        static_cast<float>(std::sqrt(std::fabs(shape.blocks[0].coefficient)));
  for (const MonomialRun& run : shape.runs) {
    const Floats weight = hn::Set(d, static_cast<float>(run.weight));
    const float* parent =
        run.degree == 1 ? nullptr : monomials + shape.runs[static_cast<size_t>(run.parent)].at;
    for (int64_t i = 0; i < run.length; i += Lanes()) {
      Floats value = hn::LoadU(d, x + run.shift + i);
      if (parent != nullptr) value = hn::Mul(hn::LoadU(d, parent + i), value);
      hn::StoreU(value, d, monomials + run.at + i);
      if (run.column >= 0) hn::StoreU(hn::Mul(value, weight), d, factors + run.column + i);
    }
  }
}

// Adds to grad_x [dim]. `monomials` are those that MonomialFactors left; `gradients`, as many, are
// overwritten. A product passes its gradient to both of its factors, from the highest degree down.
HWY_INLINE void MonomialBackward(const float* HWY_RESTRICT x, const PolynomialShape& shape,
                                 const float* HWY_RESTRICT monomials,
                                 const float* HWY_RESTRICT grad_factors,
                                 float* HWY_RESTRICT gradients, float* HWY_RESTRICT grad_x) {
  std::fill_n(gradients, shape.monomials, 0.0f);
  for (auto run = shape.runs.rbegin(); run != shape.runs.rend(); ++run) {
    float* HWY_RESTRICT gradient = gradients + run->at;
    if (run->column >= 0) {
      const auto weight = static_cast<float>(run->weight);
      for (int64_t i = 0; i < run->length; ++i)
        gradient[i] += weight * grad_factors[run->column + i];
    }
    float* HWY_RESTRICT to = grad_x + run->shift;
    if (run->degree == 1) {
      for (int64_t i = 0; i < run->length; ++i) to[i] += gradient[i];
      continue;
    }
    const int64_t parent_at = shape.runs[static_cast<size_t>(run->parent)].at;
    const float *parent = monomials + parent_at, *factor = x + run->shift;
    float* HWY_RESTRICT parent_gradient = gradients + parent_at;
    for (int64_t i = 0; i < run->length; ++i) {
      parent_gradient[i] += gradient[i] * factor[i];
      to[i] += gradient[i] * parent[i];
    }
  }
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_MONOMIALS_INL_H_
