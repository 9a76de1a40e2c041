// Maps and panels of features, once for each SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/features.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <utility>

#include "hwy/highway.h"
#include "kernels/cpu/simd/features-inl.h"
#include "kernels/cpu/simd/monomials-inl.h"
#include "kernels/cpu/simd/project-inl.h"
#include "kernels/cpu/simd/rows-inl.h"
#include "kernels/cpu/simd/sketch-inl.h"
#include "maps_includes.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// A map on one row of u, [m] → exponents and factors [parts·m]; arrays that the map does not have
// may be null. The loops become SIMD code.
template <class Map>
void EvaluateRow(int64_t m, float epsilon, const float* HWY_RESTRICT u,
                 float* HWY_RESTRICT exponents, float* HWY_RESTRICT factors) {
  const float* f = u + (kIsMasked<Map> ? m : 0);
  for (int part = 0; part < Map::kTraits.info.parts; ++part) {
    const int64_t first = part * m;
    if constexpr (!Map::kFlat) {
      for (int64_t r = 0; r < m; ++r) exponents[first + r] = Map::Exponent(u[r], part, epsilon);
    }
    if constexpr (Map::kTraits.has_factor) {
      for (int64_t r = 0; r < m; ++r) factors[first + r] = Map::Factor(f[r], part, epsilon);
    }
  }
}

// Computes grad_u from the gradients of exponents and factors.
template <class Map>
void BackwardRow(int64_t m, float epsilon, const float* HWY_RESTRICT u,
                 const float* HWY_RESTRICT grad_exponents, const float* HWY_RESTRICT grad_factors,
                 float* HWY_RESTRICT grad_u) {
  constexpr int64_t kMasked = kIsMasked<Map> ? 1 : 0;
  std::fill_n(grad_u, m + kMasked * m, 0.0f);
  for (int part = 0; part < Map::kTraits.info.parts; ++part) {
    const int64_t first = part * m;
    if constexpr (!Map::kFlat) {
      for (int64_t r = 0; r < m; ++r)
        grad_u[r] += grad_exponents[first + r] * Map::ExponentSlope(u[r], part, epsilon);
    }
    if constexpr (Map::kTraits.has_factor) {
      for (int64_t r = 0; r < m; ++r)
        grad_u[kMasked * m + r] +=
            grad_factors[first + r] * Map::FactorSlope(u[kMasked * m + r], part, epsilon);
    }
  }
}

// Columns of degrees 0 and 1, or of all degrees if nothing is drawn.
static void MonomialRows(const PanelRows& rows, float* factors, int64_t step) {
  const PolynomialShape& shape = *rows.head.polynomial;
  const Scratch<float> monomials(rows.context, shape.monomials + kWidestVector);
  const bool taylor = IsTaylor(shape);
  for (int64_t row = 0; row < rows.count; ++row) {
    const float* x = rows.x + row * rows.x_step;
    float* to = factors + row * step;
    if (taylor) {
      TaylorFactors(x, shape.dim, to);
    } else {
      MonomialFactors(x, shape, monomials.data(), to);
      std::fill(to + shape.width, to + step, 0.0f);
    }
  }
}

static void MonomialRowsBackward(const PanelRows& rows, const float* grad_factors, int64_t step,
                                 float* grad_x, int64_t grad_step) {
  const PolynomialShape& shape = *rows.head.polynomial;
  const int64_t size = shape.monomials + kWidestVector;
  const Scratch<float> memory(rows.context, 2 * size + step);
  const bool taylor = IsTaylor(shape);
  for (int64_t row = 0; row < rows.count; ++row) {
    const float *x = rows.x + row * rows.x_step, *gradient = grad_factors + row * step;
    float* to = grad_x + row * grad_step;
    if (taylor) {
      TaylorBackward(x, shape.dim, gradient, to);
      continue;
    }
    std::fill_n(to, shape.dim, 0.0f);
    MonomialFactors(x, shape, memory.data(), memory.data() + 2 * size);
    MonomialBackward(x, shape, memory.data(), gradient, memory.data() + size, to);
  }
}

// Row by row, by the loops of the map's own file.
template <class Map>
void PlainRows(const PanelRows& rows, float* factors, int64_t step) {
  const RowMapTables tables = rows.head.Tables();
  for (int64_t row = 0; row < rows.count; ++row) {
    float* to = factors + row * step;
    Map::Factors(rows.x + row * rows.x_step, tables, to);
    std::fill(to + rows.head.width, to + step, 0.0f);
  }
}
template <class Map>
void PlainRowsBackward(const PanelRows& rows, const float* grad_factors, int64_t step,
                       float* grad_x, int64_t grad_step) {
  const RowMapTables tables = rows.head.Tables();
  for (int64_t row = 0; row < rows.count; ++row)
    Map::Backward(rows.x + row * rows.x_step, tables, grad_factors + row * step,
                  grad_x + row * grad_step);
}

// Calls by_transform(block, first row, count) for all lanes of blocks that have a transform, and
// by_definition(block, row) for the others.
template <class ByTransform, class ByDefinition>
void ForSketches(const PanelRows& rows, bool backward, const ByTransform& by_transform,
                 const ByDefinition& by_definition) {
  const HeadFeatures& head = rows.head;
  for (const PolynomialBlock& block : head.polynomial->blocks) {
    if (block.table < 0) continue;
    if (!HasTransform(block)) {
      for (int64_t row = 0; row < rows.count; ++row) by_definition(block, row);
      continue;
    }
    SketchBlock sketch(*head.polynomial, block, head.table, backward, rows.context);
    for (int64_t row = 0; row < rows.count; row += Lanes())
      by_transform(sketch, row, std::min(Lanes(), rows.count - row));
  }
}

static void SketchRows(const PanelRows& rows, float* factors, int64_t step) {
  MonomialRows(rows, factors, step);
  ForSketches(
      rows, /*backward=*/false,
      [&](SketchBlock& sketch, int64_t row, int64_t count) {
        sketch.Factors(rows.x + row * rows.x_step, rows.x_step, count, factors + row * step, step);
      },
      [&](const PolynomialBlock& block, int64_t row) {
        PolySketch::BlockFactors(rows.x + row * rows.x_step, rows.head.Tables(), block,
                                 factors + row * step);
      });
}

static void SketchRowsBackward(const PanelRows& rows, const float* grad_factors, int64_t step,
                               float* grad_x, int64_t grad_step) {
  MonomialRowsBackward(rows, grad_factors, step, grad_x, grad_step);
  ForSketches(
      rows, /*backward=*/true,
      [&](SketchBlock& sketch, int64_t row, int64_t count) {
        sketch.Backward({.x = rows.x + row * rows.x_step,
                         .x_step = rows.x_step,
                         .count = count,
                         .grad_factors = grad_factors + row * step,
                         .step = step,
                         .grad_x = grad_x + row * grad_step,
                         .grad_step = grad_step});
      },
      [&](const PolynomialBlock& block, int64_t row) {
        PolySketch::BlockBackward(rows.x + row * rows.x_step, rows.head.Tables(), block,
                                  grad_factors + row * step, grad_x + row * grad_step);
      });
}

template <class Map>
constexpr MapRows Rows() {
  if constexpr (std::is_base_of_v<MonomialMap, Map>) {
    return {nullptr, nullptr, &MonomialRows, &MonomialRowsBackward};
  } else if constexpr (std::is_same_v<Map, PolySketch>) {
    return {nullptr, nullptr, &SketchRows, &SketchRowsBackward};
  } else if constexpr (kIsRowMap<Map>) {
    return {nullptr, nullptr, &PlainRows<Map>, &PlainRowsBackward<Map>};
  } else {
    return {&EvaluateRow<Map>, &BackwardRow<Map>, nullptr, nullptr};
  }
}

// In the order of MapEntry::index.
static constexpr MapRows kMapRows[] = {
#define FAVOR_ENTRY(Map) Rows<kernels::Map>(),
#include "maps.inc"
#undef FAVOR_ENTRY
};

const MapRows& RowsOf(const MapEntry& map) { return kMapRows[map.index]; }

static constexpr float kNowhere = -1e30f;  // the exponent of padding

static int64_t Optional(bool wanted, int64_t floats) { return wanted ? floats : 0; }

FeaturePanel::FeaturePanel(const HeadFeatures& head, int64_t max_rows, bool backward,
                           const Context& context)
    : head_(head),
      context_(context),
      rows_(RowsOf(*head.map)),
      has_factor_(head.map->traits->has_factor),
      x_step_(RowStep(head.dim)),
      u_step_(head.omega == nullptr ? 0 : RowStep(head.omega->features)),
      step_(RowStep(head.width)),
      half_norm_(static_cast<size_t>(max_rows)),
      exponent_gradient_(backward ? half_norm_.size() : 0),
      offset_(static_cast<size_t>(head.width)),
      feature_shift_(static_cast<size_t>(PaddedColumns(head.width)), kNowhere),
      memory_(context, kWidestVector +
                           max_rows * (x_step_ + u_step_ + Optional(!head.map->linear, step_) +
                                       Optional(has_factor_, step_) +
                                       Optional(backward && !head.map->linear, u_step_)) +
                           step_) {
  for (size_t r = 0; r < offset_.size(); ++r) offset_[r] = head.Offset(static_cast<int64_t>(r));
  float* next = memory_.data();
  const auto take = [&next](int64_t floats) { return std::exchange(next, next + floats); };
  std::fill_n(take(kWidestVector), kWidestVector, 0.0f);  // precedes the first row of x
  x_ = take(max_rows * x_step_);
  u_ = take(max_rows * u_step_);
  exponents_ = head.map->linear ? u_ : take(max_rows * step_);
  factors_ = has_factor_ ? take(max_rows * step_) : nullptr;
  weights_ = has_factor_ ? factors_ : exponents_;
  grad_u_ = backward && !head.map->linear ? take(max_rows * u_step_) : nullptr;
  row_memory_ = take(step_);
  if (!head.map->linear) std::fill_n(exponents_, next - exponents_, 0.0f);  // padding is read
}

void FeaturePanel::Compute(FeatureRole role, const ConstView& rows, int64_t begin, int64_t count,
                           const double* mean, double scale, const float* mask) {
  role_ = role;
  for (int64_t row = 0; row < count; ++row) {
    float* x = x_ + row * x_step_;
    if (mask != nullptr && mask[begin + row] == 0) {
      std::fill_n(x, x_step_, 0.0f);
    } else {
      LoadRow(rows, begin + row, mean, scale, x_step_, x);
    }
    half_norm_[static_cast<size_t>(row)] = SquareSum(x, PaddedColumns(head_.dim)) / 2;
  }
  if (head_.omega != nullptr) ProjectRows(*head_.packed_omega, x_, x_step_, count, u_, u_step_);
  if (head_.map->IsRowMap()) {
    rows_.row_factors(MapRowsOf(count), factors_, step_);
    for (int64_t row = 0; row < count; ++row) head_.Weigh(role, factors_ + row * step_);
    return;
  }
  if (head_.argument_scale != 1) {
    const auto factor = static_cast<float>(head_.argument_scale);
    for (int64_t i = 0; i < count * u_step_; ++i) u_[i] *= factor;
  }
  if (head_.map->linear) return;
  for (int64_t row = 0; row < count; ++row) {
    rows_.evaluate(head_.features, static_cast<float>(head_.epsilon), u_ + row * u_step_,
                   Exponents(row), has_factor_ ? factors_ + row * step_ : nullptr);
    if (has_factor_) head_.Weigh(role, factors_ + row * step_);
  }
}

void FeaturePanel::FindLargest(int64_t count, const char* exists, const float* row_shift,
                               float* largest) const {
  const FloatTag d;
  if (head_.map->flat) {
    float most = -INFINITY;
    for (int64_t i = 0; i < count; ++i) most = std::max(most, exists[i] != 0 ? row_shift[i] : most);
    for (int64_t r = 0; r < padded(); ++r) largest[r] = std::max(largest[r], most);
    return;
  }
  int64_t row = 0;
  for (; row + 4 <= count; row += 4) {
    Floats shift[4];
    for (int i = 0; i < 4; ++i)
      shift[i] = hn::Set(d, exists[row + i] != 0 ? row_shift[row + i] : -INFINITY);
    const float* e = Exponents(row);
    for (int64_t r = 0; r < padded(); r += Lanes()) {
      const Floats a = hn::Max(hn::Add(hn::LoadU(d, e + r), shift[0]),
                               hn::Add(hn::LoadU(d, e + step_ + r), shift[1]));
      const Floats b = hn::Max(hn::Add(hn::LoadU(d, e + 2 * step_ + r), shift[2]),
                               hn::Add(hn::LoadU(d, e + 3 * step_ + r), shift[3]));
      hn::StoreU(hn::Max(hn::LoadU(d, largest + r), hn::Max(a, b)), d, largest + r);
    }
  }
  for (; row < count; ++row) {
    if (exists[row] == 0) continue;
    const Floats shift = hn::Set(d, row_shift[row]);
    const float* e = Exponents(row);
    for (int64_t r = 0; r < padded(); r += Lanes()) {
      hn::StoreU(hn::Max(hn::LoadU(d, largest + r), hn::Add(hn::LoadU(d, e + r), shift)), d,
                 largest + r);
    }
  }
}

void FeaturePanel::SetFeatureShift(std::span<const double> c, double sign, double base) {
  for (size_t r = 0; r < c.size(); ++r)
    feature_shift_[r] = static_cast<float>(sign * c[r] + offset_[r] - base);
  one_exponent_ = head_.map->flat;
  for (size_t r = 1; r < c.size() && one_exponent_; ++r)
    one_exponent_ = feature_shift_[r] == feature_shift_[0];
}

float FeaturePanel::LargestOfRow(int64_t row) const {
  const FloatTag d;
  if (one_exponent_) return feature_shift_[0];
  if (head_.map->flat) std::fill_n(Exponents(row), step_, 0.0f);
  const float *e = Exponents(row), *shift = feature_shift_.data();
  Floats largest = hn::Add(hn::LoadU(d, e), hn::LoadU(d, shift));
  for (int64_t r = Lanes(); r < padded(); r += Lanes())
    largest = hn::Max(largest, hn::Add(hn::LoadU(d, e + r), hn::LoadU(d, shift + r)));
  return LargestLane(largest);
}

enum class RowForm {
  kExponents,    // g = 1
  kFactors,      // exponents and factors
  kOneExponent,  // factors, and one exponent for all features
};

// The loop over a row's weights, specialised for each form of row. Weights take the place of
// exponents, or of factors if there are any; with kKeep, exponentials stay where exponents were.
template <RowForm kForm, bool kDot, bool kKeep>
HWY_INLINE float WeighRow(int64_t padded, float* HWY_RESTRICT e, float* HWY_RESTRICT g,
                          float row_shift, const float* HWY_RESTRICT feature_shift, float limit,
                          const float* HWY_RESTRICT with, float factor, float* HWY_RESTRICT sums) {
  const FloatTag d;
  const Floats shift = hn::Set(d, row_shift), most = hn::Set(d, limit),
               multiple = hn::Set(d, factor);
  const Floats one = Exp(hn::Min(hn::Set(d, feature_shift[0] + row_shift), most));
  Floats dot = hn::Zero(d);
  for (int64_t r = 0; r < padded; r += Lanes()) {
    Floats weight = one;
    if constexpr (kForm != RowForm::kOneExponent) {
      Floats exponent =
          hn::Add(hn::Add(hn::LoadU(d, e + r), hn::LoadU(d, feature_shift + r)), shift);
      if constexpr (!kDot) exponent = hn::Min(exponent, most);
      weight = Exp(exponent);
    }
    if constexpr (kForm == RowForm::kExponents || kKeep) hn::StoreU(weight, d, e + r);
    if constexpr (kForm != RowForm::kExponents) {
      weight = hn::Mul(weight, hn::LoadU(d, g + r));
      hn::StoreU(weight, d, g + r);
    }
    if constexpr (kDot) {
      dot = hn::MulAdd(weight, hn::LoadU(d, with + r), dot);
    } else {
      hn::StoreU(hn::MulAdd(weight, multiple, hn::LoadU(d, sums + r)), d, sums + r);
    }
  }
  return kDot ? SumOfLanes(dot) : 0.0f;
}

// kKeep is for gradients, which follow only WeighAndSum (kDot false).
template <bool kDot>
HWY_INLINE auto ChooseWeighRow(bool has_factor, bool one_exponent) {
  if (one_exponent) return &WeighRow<RowForm::kOneExponent, kDot, !kDot>;
  return has_factor ? &WeighRow<RowForm::kFactors, kDot, !kDot>
                    : &WeighRow<RowForm::kExponents, kDot, !kDot>;
}

float FeaturePanel::WeighAndDot(int64_t row, float row_shift, const float* with) const {
  return ChooseWeighRow<true>(has_factor_, one_exponent_)(padded(), Exponents(row), Weights(row),
                                                          row_shift, feature_shift_.data(), 0, with,
                                                          0, nullptr);
}

void FeaturePanel::WeighAndSum(int64_t row, float row_shift, float limit, float factor,
                               float* sums) const {
  if (head_.map->flat && !one_exponent_) std::fill_n(Exponents(row), step_, 0.0f);
  ChooseWeighRow<false>(has_factor_, one_exponent_)(padded(), Exponents(row), Weights(row),
                                                    row_shift, feature_shift_.data(), limit,
                                                    nullptr, factor, sums);
}

void FeaturePanel::Backward(int64_t count, float* grad_weights, float* grad_x, int64_t grad_step) {
  const FloatTag d;
  const auto slope = static_cast<float>(head_.norm_slope);
  const auto scale = static_cast<float>(head_.argument_scale);
  float* grad_exponents = row_memory_;
  for (int64_t row = 0; row < count; ++row) {
    float* gradient = grad_weights + row * step_;
    // The gradient with respect to exponents is w·gradient; with respect to factors, e^…·gradient.
    Floats sum = hn::Zero(d);
    for (int64_t r = 0; r < padded(); r += Lanes()) {
      const Floats g = hn::LoadU(d, gradient + r);
      const Floats grad_exponent = hn::Mul(g, hn::LoadU(d, Weights(row) + r));
      sum = hn::Add(sum, grad_exponent);
      if (head_.map->linear) {
        hn::StoreU(hn::Mul(grad_exponent, hn::Set(d, scale)), d, gradient + r);
        continue;
      }
      hn::StoreU(grad_exponent, d, grad_exponents + r);
      hn::StoreU(hn::Mul(g, hn::LoadU(d, Exponents(row) + r)), d, gradient + r);
    }
    exponent_gradient_[static_cast<size_t>(row)] = SumOfLanes(sum);
    if (head_.map->linear) continue;
    if (head_.map->IsRowMap()) {
      std::fill(gradient + head_.width, gradient + step_, 0.0f);
      head_.Weigh(role_, gradient);
      continue;
    }
    head_.Weigh(role_, gradient);
    float* grad_u = grad_u_ + row * u_step_;
    rows_.backward(head_.features, static_cast<float>(head_.epsilon), u_ + row * u_step_,
                   grad_exponents, gradient, grad_u);
    for (int64_t r = 0; r < head_.omega->features; ++r) grad_u[r] *= scale;
  }
  if (head_.map->IsRowMap()) {
    const bool rotated = head_.omega != nullptr;
    rows_.row_backward(MapRowsOf(count), grad_weights, step_, rotated ? grad_u_ : grad_x,
                       rotated ? u_step_ : grad_step);
    if (!rotated) return;
  }
  ProjectRowsTranspose(*head_.packed_omega, head_.map->linear ? grad_weights : grad_u_,
                       head_.map->linear ? step_ : u_step_, count, grad_x, grad_step);
  if (slope == 0) return;
  for (int64_t row = 0; row < count; ++row) {
    const float factor = slope * ExponentGradient(row);
    for (int64_t i = 0; i < head_.dim; ++i)
      grad_x[row * grad_step + i] += factor * x_[row * x_step_ + i];
  }
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
