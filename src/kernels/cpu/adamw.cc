#include "kernels/adamw.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {
namespace {

bool IsUsable(const AdamWArguments& a) {
  const std::span entries(a.tally, static_cast<size_t>(a.entries));
  return std::isfinite(entries[0].loss) && std::isfinite(entries[0].squared_norm) &&
         std::ranges::all_of(entries, [](const TallyEntry& e) { return e.unusable == 0; });
}

}  // namespace

void AdamW(const AdamWArguments& a, const Context& context) {
  if (!IsUsable(a)) return;
  const double norm = std::sqrt(a.tally->squared_norm);
  const auto t = static_cast<double>(a.step);
  const std::vector<Piece> pieces = CutIntoPieces(a.segments);
  WithType(a.values.type(), [&]<class T>(T) {
    const auto scale = static_cast<T>(a.clip > 0 && norm > a.clip ? a.clip / norm : 1);
    const auto b1 = static_cast<T>(a.beta1), b2 = static_cast<T>(a.beta2);
    // Subtracted in double: for β near 1 the difference would have few digits left in float.
    const auto rest1 = static_cast<T>(1 - a.beta1), rest2 = static_cast<T>(1 - a.beta2);
    const auto c1 = static_cast<T>(1 / (1 - std::pow(a.beta1, t))),
               c2 = static_cast<T>(1 / (1 - std::pow(a.beta2, t)));
    const auto epsilon = static_cast<T>(a.epsilon), rate = static_cast<T>(a.rate);
    const auto decayed = static_cast<T>(1 - a.rate * a.weight_decay);
    const T* g = a.gradients.Data<T>();
    T *w = a.values.Data<T>(), *m = a.first.Data<T>(), *v = a.second.Data<T>();
    ParallelFor(context, std::ssize(pieces), [&](int64_t index) {
      const Piece& piece = pieces[static_cast<size_t>(index)];
      const T keep = a.segments.data[piece.segment].decays ? decayed : T{1};
      for (int64_t i = piece.begin; i < piece.end; ++i) {
        const T gradient = scale * g[i];
        m[i] = b1 * m[i] + rest1 * gradient;
        v[i] = b2 * v[i] + rest2 * gradient * gradient;
        w[i] = keep * w[i] - rate * (c1 * m[i]) / (std::sqrt(c2 * v[i]) + epsilon);
      }
    });
  });
}

}  // namespace favor::kernels::cpu
