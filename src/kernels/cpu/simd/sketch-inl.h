// TensorSketch of rows by Fourier transforms, for the SIMD target being compiled: as many rows at a
// time as a vector has lanes, one in each, so that every butterfly is whole vectors. Transforms are
// for powers of two and need no permutation: the forward one leaves frequencies in the order of
// reversed bits, products do not mind, and the inverse one begins with that order.
#if defined(FAVOR_KERNELS_CPU_SIMD_SKETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_SKETCH_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_SKETCH_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_SKETCH_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "core/scratch.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm-inl.h"
#include "kernels/maps/poly_sketch.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Smaller sketches, and sizes that are not powers of two, are convolved by definition.
inline bool HasTransform(const PolynomialBlock& block) {
  return block.columns >= 8 && std::has_single_bit(static_cast<uint64_t>(block.columns));
}

// Complex numbers for each lane: the real parts of all lanes, then the imaginary ones, of one
// number after the other.
class Spectrum {
 public:
  explicit Spectrum(float* memory) : memory_(memory) {}
  static int64_t Size(int64_t numbers) { return 2 * numbers * Lanes(); }

  float* real(int64_t i) const { return memory_ + 2 * i * Lanes(); }
  float* imaginary(int64_t i) const { return real(i) + Lanes(); }
  Spectrum From(int64_t i) const { return Spectrum(real(i)); }

 private:
  float* memory_;
};

struct Complex {
  Floats real, imaginary;
};
HWY_INLINE Complex LoadNumber(const Spectrum& a, int64_t i) {
  const FloatTag d;
  return {hn::Load(d, a.real(i)), hn::Load(d, a.imaginary(i))};
}
HWY_INLINE void StoreNumber(const Complex& value, const Spectrum& a, int64_t i) {
  const FloatTag d;
  hn::Store(value.real, d, a.real(i));
  hn::Store(value.imaginary, d, a.imaginary(i));
}
HWY_INLINE Complex Sum(const Complex& a, const Complex& b) {
  return {hn::Add(a.real, b.real), hn::Add(a.imaginary, b.imaginary)};
}
HWY_INLINE Complex Difference(const Complex& a, const Complex& b) {
  return {hn::Sub(a.real, b.real), hn::Sub(a.imaginary, b.imaginary)};
}
// a·b, or a·conj(b).
template <bool kConjugate>
HWY_INLINE Complex Product(const Complex& a, const Complex& b) {
  if constexpr (kConjugate) {
    return {hn::MulAdd(a.imaginary, b.imaginary, hn::Mul(a.real, b.real)),
            hn::NegMulAdd(a.real, b.imaginary, hn::Mul(a.imaginary, b.real))};
  } else {
    return {hn::NegMulAdd(a.imaginary, b.imaginary, hn::Mul(a.real, b.real)),
            hn::MulAdd(a.real, b.imaginary, hn::Mul(a.imaginary, b.real))};
  }
}

// Halves are transformed one after the other, so that they stay in the nearest cache once they fit:
// 256 numbers of 16 lanes are 32 KiB.
class SketchTransform {
 public:
  // Cosines and sines of 2πk/n, k < n/2, for an n that `size` divides.
  SketchTransform(const PolynomialShape& shape, int64_t size)
      : shape_(shape),
        size_(size),
        stride_(2 * static_cast<int64_t>(shape.cosines.size()) / size) {}

  void Forward(const Spectrum& a) const { Forward(a, size_, stride_); }
  void Inverse(const Spectrum& a) const { Inverse(a, size_, stride_); }  // times `size`

 private:
  // e^{2πi·k·step/n}
  HWY_INLINE Complex Turn(int64_t k) const {
    const FloatTag d;
    return {hn::Set(d, shape_.cosines[static_cast<size_t>(k)]),
            hn::Set(d, shape_.sines[static_cast<size_t>(k)])};
  }

  void Forward(const Spectrum& a, int64_t size, int64_t step) const {
    const int64_t half = size / 2;
    const Complex first = LoadNumber(a, 0), middle = LoadNumber(a, half);
    StoreNumber(Sum(first, middle), a, 0);
    StoreNumber(Difference(first, middle), a, half);
    for (int64_t k = 1; k < half; ++k) {
      const Complex x = LoadNumber(a, k), y = LoadNumber(a, k + half);
      StoreNumber(Sum(x, y), a, k);
      StoreNumber(Product<true>(Difference(x, y), Turn(k * step)), a, k + half);
    }
    if (half == 1) return;
    Forward(a, half, 2 * step);
    Forward(a.From(half), half, 2 * step);
  }

  void Inverse(const Spectrum& a, int64_t size, int64_t step) const {
    const int64_t half = size / 2;
    if (half > 1) {
      Inverse(a, half, 2 * step);
      Inverse(a.From(half), half, 2 * step);
    }
    const Complex first = LoadNumber(a, 0), middle = LoadNumber(a, half);
    StoreNumber(Sum(first, middle), a, 0);
    StoreNumber(Difference(first, middle), a, half);
    for (int64_t k = 1; k < half; ++k) {
      const Complex x = LoadNumber(a, k),
                    y = Product<false>(LoadNumber(a, k + half), Turn(k * step));
      StoreNumber(Sum(x, y), a, k);
      StoreNumber(Difference(x, y), a, k + half);
    }
  }

  const PolynomialShape& shape_;
  int64_t size_, stride_;
};

// to = a·b, or a·conj(b).
template <bool kConjugate>
HWY_INLINE void MultiplySpectra(const Spectrum& a, const Spectrum& b, int64_t size,
                                const Spectrum& to) {
  for (int64_t i = 0; i < size; ++i)
    StoreNumber(Product<kConjugate>(LoadNumber(a, i), LoadNumber(b, i)), to, i);
}

struct SketchGradients {
  const float* x;  // [count, x_step]
  int64_t x_step, count;
  const float* grad_factors;  // [count, step]
  int64_t step;
  float* grad_x;  // [count, grad_step]; added to
  int64_t grad_step;
};

// One block of a sketch, on up to Lanes() rows at a time.
class SketchBlock {
 public:
  SketchBlock(const PolynomialShape& shape, const PolynomialBlock& block, const int32_t* table,
              bool backward, const Context& context)
      : block_(block),
        dim_(shape.dim),
        size_(block.columns),
        table_(table + block.table),
        transform_(shape, size_),
        scale_(static_cast<float>(PolySketch::Scale(block))),
        memory_(context,
                2 * dim_ * Lanes() + (backward ? 2 * block.degree : 2) * Spectrum::Size(size_)) {}

  void Factors(const float* x, int64_t x_step, int64_t count, float* factors, int64_t step) {
    LoadRows(x, x_step, count);
    for (int t = 0; t < block_.degree; ++t) {
      Sketch(t, At(t == 0 ? 0 : 1));
      if (t > 0) MultiplySpectra<false>(At(0), At(1), size_, At(0));
    }
    transform_.Inverse(At(0));
    const float scale = scale_ / static_cast<float>(size_);
    for (int64_t row = 0; row < count; ++row) {
      float* to = factors + row * step + block_.first;
      for (int64_t j = 0; j < size_; ++j) to[j] = scale * At(0).real(j)[row];
    }
  }

  // The gradient of a sketch is the correlation of the result's gradient with the convolution of
  // all other sketches.
  void Backward(const SketchGradients& a) {
    const FloatTag d;
    LoadRows(a.x, a.x_step, a.count);
    const int degree = block_.degree;
    const auto sketch = [&](int t) { return At(2 + t); };
    const auto before = [&](int t) { return t == 1 ? sketch(0) : At(degree + t); };
    for (int t = 0; t < degree; ++t) {
      Sketch(t, sketch(t));
      if (t >= 2) MultiplySpectra<false>(before(t - 1), sketch(t - 1), size_, before(t));
    }
    const Spectrum rest = At(0), gradient = At(1);
    for (int64_t j = 0; j < size_; ++j) {
      for (int64_t row = 0; row < Lanes(); ++row) {
        rest.real(j)[row] =
            row < a.count ? scale_ * a.grad_factors[row * a.step + block_.first + j] : 0.0f;
        rest.imaginary(j)[row] = 0;
      }
    }
    transform_.Forward(rest);
    float* sums = memory_.data() + dim_ * Lanes();
    std::fill_n(sums, dim_ * Lanes(), 0.0f);
    for (int t = degree - 1; t >= 0; --t) {
      if (t > 0) {
        MultiplySpectra<true>(rest, before(t), size_, gradient);
        MultiplySpectra<true>(rest, sketch(t), size_, rest);
      }
      const Spectrum result = t > 0 ? gradient : rest;
      transform_.Inverse(result);
      for (int64_t i = 0; i < dim_; ++i) {
        const int32_t entry = table_[t * dim_ + i];
        const Floats value = hn::Load(d, result.real(std::abs(entry) - 1));
        const Floats sum = hn::Load(d, sums + i * Lanes());
        hn::Store(entry < 0 ? hn::Sub(sum, value) : hn::Add(sum, value), d, sums + i * Lanes());
      }
    }
    for (int64_t row = 0; row < a.count; ++row) {
      for (int64_t i = 0; i < dim_; ++i)
        a.grad_x[row * a.grad_step + i] += sums[i * Lanes() + row] / static_cast<float>(size_);
    }
  }

 private:
  Spectrum At(int index) const {
    return Spectrum(memory_.data() + 2 * dim_ * Lanes() + index * Spectrum::Size(size_));
  }
  // Rows become lanes; lanes without a row are zeros.
  void LoadRows(const float* x, int64_t x_step, int64_t count) {
    float* to = memory_.data();
    for (int64_t i = 0; i < dim_; ++i) {
      for (int64_t row = 0; row < Lanes(); ++row)
        to[i * Lanes() + row] = row < count ? x[row * x_step + i] : 0.0f;
    }
  }
  // The transform of count sketch t of the rows.
  void Sketch(int t, const Spectrum& to) const {
    const FloatTag d;
    std::fill_n(to.real(0), Spectrum::Size(size_), 0.0f);
    for (int64_t i = 0; i < dim_; ++i) {
      const int32_t entry = table_[t * dim_ + i];
      float* bucket = to.real(std::abs(entry) - 1);
      const Floats value = hn::Load(d, memory_.data() + i * Lanes());
      const Floats sum = hn::Load(d, bucket);
      hn::Store(entry < 0 ? hn::Sub(sum, value) : hn::Add(sum, value), d, bucket);
    }
    transform_.Forward(to);
  }

  const PolynomialBlock& block_;
  int64_t dim_, size_;
  const int32_t* table_;
  SketchTransform transform_;
  float scale_;
  Scratch<float> memory_;  // rows [dim, lanes], gradients [dim, lanes], spectra
};

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_SKETCH_INL_H_
