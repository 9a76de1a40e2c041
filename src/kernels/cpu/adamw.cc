#include "kernels/adamw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adamw.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "hwy/highway.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/typed.h"

#ifndef FAVOR_KERNELS_CPU_ADAMW_STEP_
#define FAVOR_KERNELS_CPU_ADAMW_STEP_
namespace favor::kernels::cpu {

// The constants of one step, and its arrays.
template <class T>
struct AdamWStep {
  T scale;  // of the gradient
  T beta1, beta2, rest1, rest2;
  T correction1, correction2;  // 1/(1 − βᵗ)
  T epsilon, rate;
  const T* gradients;
  T *values, *first, *second;
};

}  // namespace favor::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Elements [begin, end), whose values are multiplied by `keep`. A loop without branches, which the
// compiler turns into code for this target.
template <class T>
HWY_INLINE void UpdatePiece(const AdamWStep<T>& s, T keep, int64_t begin, int64_t end) {
  const T* HWY_RESTRICT g = s.gradients;
  T *HWY_RESTRICT w = s.values, *HWY_RESTRICT m = s.first, *HWY_RESTRICT v = s.second;
  for (int64_t i = begin; i < end; ++i) {
    const T gradient = s.scale * g[i];
    m[i] = s.beta1 * m[i] + s.rest1 * gradient;
    v[i] = s.beta2 * v[i] + s.rest2 * gradient * gradient;
    w[i] = keep * w[i] -
           s.rate * (s.correction1 * m[i]) / (std::sqrt(s.correction2 * v[i]) + s.epsilon);
  }
}

void UpdateOnTarget(const AdamWStep<float>& step, float keep, int64_t begin, int64_t end) {
  UpdatePiece(step, keep, begin, end);
}
void UpdateInDoubleOnTarget(const AdamWStep<double>& step, double keep, int64_t begin,
                            int64_t end) {
  UpdatePiece(step, keep, begin, end);
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(UpdateOnTarget);
HWY_EXPORT(UpdateInDoubleOnTarget);

namespace {

bool IsUsable(const AdamWArguments& a) {
  const std::span entries(a.tally, static_cast<size_t>(a.entries));
  return std::isfinite(entries[0].loss) && std::isfinite(entries[0].squared_norm) &&
         std::ranges::all_of(entries, [](const TallyEntry& e) { return e.unusable == 0; });
}

void Update(const AdamWStep<float>& step, float keep, const Piece& piece) {
  HWY_DYNAMIC_DISPATCH(UpdateOnTarget)(step, keep, piece.begin, piece.end);
}
void Update(const AdamWStep<double>& step, double keep, const Piece& piece) {
  HWY_DYNAMIC_DISPATCH(UpdateInDoubleOnTarget)(step, keep, piece.begin, piece.end);
}

}  // namespace

void AdamW(const AdamWArguments& a, const Context& context) {
  if (!IsUsable(a)) return;
  const double norm = std::sqrt(a.tally->squared_norm);
  const auto t = static_cast<double>(a.step);
  const std::vector<Piece> pieces = CutIntoPieces(a.segments);
  WithType(a.values.type(), [&]<class T>(T) {
    const AdamWStep<T> step{
        .scale = static_cast<T>(a.clip > 0 && norm > a.clip ? a.clip / norm : 1),
        .beta1 = static_cast<T>(a.beta1),
        .beta2 = static_cast<T>(a.beta2),
        // Subtracted in double: for β near 1 the difference would have few digits left in float.
        .rest1 = static_cast<T>(1 - a.beta1),
        .rest2 = static_cast<T>(1 - a.beta2),
        .correction1 = static_cast<T>(1 / (1 - std::pow(a.beta1, t))),
        .correction2 = static_cast<T>(1 / (1 - std::pow(a.beta2, t))),
        .epsilon = static_cast<T>(a.epsilon),
        .rate = static_cast<T>(a.rate),
        .gradients = a.gradients.Data<T>(),
        .values = a.values.Data<T>(),
        .first = a.first.Data<T>(),
        .second = a.second.Data<T>()};
    const auto decayed = static_cast<T>(1 - a.rate * a.weight_decay);
    ParallelFor(context, std::ssize(pieces), [&](int64_t index) {
      const Piece& piece = pieces[static_cast<size_t>(index)];
      Update(step, a.segments.data[piece.segment].decays ? decayed : T{1}, piece);
    });
  });
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
