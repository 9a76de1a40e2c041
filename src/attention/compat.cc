// The formulas of two public implementations, epsilons included, in double: google-research's JAX
// Performer and performer-pytorch.
//
//   softmax:      φ(x) = m^(-1/2)·(exp(ω·x − ‖x‖²/2 − stab) + ε), x scaled by d^(-1/4); stab is the
//                 maximum of ω·x over the features of a query, and over all features and positions
//                 of the keys. ε = 1e-6 (jax), 1e-4 (torch).
//   generalized:  φ(x) = f(ω·x) + 1e-3, without m^(-1/2), and without d^(-1/4) in jax.
//   denominator:  jax adds 2e-6 if |D| ≤ 1e-6; torch adds 1e-6 to the summed keys of causal
//                 attention.
//   key mask:     torch zeroes the values only, so that masked keys stay in the denominator; jax
//                 has none.
//
// A key maximum over all positions with an ε lets later tokens change earlier outputs of a causal
// call. That is reproduced too.
#include <algorithm>
#include <cmath>
#include <vector>

#include "attention/compat.h"

#include "core/element.h"
#include "core/error_text.h"
#include "core/parallel.h"
#include "features/drawn_features.h"
#include "kernels/project.h"

namespace favor::attention {
namespace {

class CompatHead {
 public:
  CompatHead(const Call& call, int64_t group)
      : problem_(call.problem),
        torch_(call.compat == Compat::kTorch),
        features_(features::ConstantsOf(*call.plan).Head(problem_.Head(group))),
        softmax_(features_.map->linear),
        queries_(problem_.OfQueries(problem_.q, group)),
        keys_(problem_.OfKeys(problem_.k, group)),
        values_(problem_.OfKeys(problem_.v, group)),
        mask_(problem_.Mask(group)) {
    const double root = std::sqrt(problem_.scale);
    scale_ = softmax_ || torch_ ? root : 1;
    epsilon_ = softmax_ ? (torch_ ? 1e-4 : 1e-6) : features_.epsilon;
  }

  int64_t Run(View out) const {
    const int64_t m = features_.width, dv = problem_.value_dim, length = problem_.key_length;
    double stab = -INFINITY;  // the maximum over all positions, later ones too
    if (softmax_) {
      for (int64_t j = 0; j < length; ++j) {
        for (const double u : Project(keys_, j).u) stab = std::max(stab, u);
      }
    }
    std::vector<double> s(static_cast<size_t>(m * dv), 0.0), z(static_cast<size_t>(m), 0.0);
    const auto add = [&](int64_t j) {
      const std::vector<double> phi = Phi(keys_, j, stab);
      const bool exists = mask_ == nullptr || mask_[j] != 0;
      for (size_t r = 0; r < phi.size(); ++r) {
        z[r] += phi[r];
        for (int64_t v = 0; exists && v < dv; ++v) {
          s[r * static_cast<size_t>(dv) + static_cast<size_t>(v)] +=
              phi[r] * ElementAt(values_, j, v);
        }
      }
    };
    int64_t nonpositive = 0;
    const auto read = [&](int64_t i) {
      const std::vector<double> phi = Phi(queries_, i, std::nullopt);
      double denominator = 0;
      for (size_t r = 0; r < phi.size(); ++r)
        denominator += phi[r] * (z[r] + (torch_ && problem_.causal ? 1e-6 : 0));
      if (!torch_ && std::fabs(denominator) <= 1e-6) denominator += 2e-6;
      nonpositive += denominator > 0 ? 0 : 1;
      for (int64_t v = 0; v < dv; ++v) {
        double sum = 0;
        for (size_t r = 0; r < phi.size(); ++r)
          sum += phi[r] * s[r * static_cast<size_t>(dv) + static_cast<size_t>(v)];
        SetElement(out, i, v, denominator == 0 ? 0 : sum / denominator);
      }
    };
    if (problem_.causal) {
      for (int64_t i = 0; i < length; ++i) {
        add(i);
        read(i);
      }
    } else {
      for (int64_t j = 0; j < length; ++j) add(j);
      for (int64_t i = 0; i < problem_.query_length; ++i) read(i);
    }
    return nonpositive;
  }

 private:
  struct Projected {
    std::vector<double> u;
    double half_norm = 0;
  };

  Projected Project(const ConstView& rows, int64_t row) const {
    std::vector<double> x(static_cast<size_t>(problem_.dim));
    Projected result{std::vector<double>(static_cast<size_t>(features_.omega->features)), 0};
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = scale_ * ElementAt(rows, row, static_cast<int64_t>(i));
      result.half_norm += x[i] * x[i] / 2;
    }
    kernels::reference::Project(*features_.omega, x.data(), 1, result.u.data());
    return result;
  }

  // `stab` is that of the keys; nullopt: the row's own maximum.
  std::vector<double> Phi(const ConstView& rows, int64_t row, std::optional<double> stab) const {
    const Projected projected = Project(rows, row);
    const auto m = static_cast<double>(features_.omega->features);
    std::vector<double> phi(projected.u.size());
    if (softmax_) {
      const double largest = stab.value_or(*std::ranges::max_element(projected.u));
      for (size_t r = 0; r < phi.size(); ++r) {
        phi[r] =
            (std::exp(projected.u[r] - projected.half_norm - largest) + epsilon_) / std::sqrt(m);
      }
      return phi;
    }
    std::vector<double> exponents(phi.size());
    const std::vector<double> offset(phi.size(), 0.0);
    const double no_norm = 0;
    features_.map->evaluate({.features = features_.omega->features,
                             .lanes = 1,
                             .u = projected.u.data(),
                             .half_norm = &no_norm,
                             .offset = offset.data(),
                             .epsilon = epsilon_,
                             .norm_slope = 0},
                            exponents.data(), phi.data());
    for (size_t r = 0; r < phi.size(); ++r) phi[r] *= std::exp(exponents[r]);
    return phi;
  }

  const kernels::AttentionProblem& problem_;
  bool torch_;
  kernels::HeadFeatures features_;
  bool softmax_;
  ConstView queries_, keys_, values_;
  const float* mask_;
  double scale_ = 1, epsilon_ = 0;
};

}  // namespace

void CheckCompat(const Call& call) {
  const auto refuse = [](std::string_view what) {
    Throw(ErrorCode::kInvalidOption, "compat",
          "given {}, which the public implementations do not have", what);
  };
  const FeatureMapInfo& map = call.plan->map();
  if (map.name != "positive" && map.kernel != KernelFamily::kGeneralized)
    refuse(fmt::format("the map '{}'", map.name));
  if (call.center_keys) refuse("key centring");
  if (!call.problem.normalize) refuse("an unnormalised output");
  if (call.compat == Compat::kJax && !call.problem.mask.empty()) refuse("a key mask with jax");
}

void AttendCompatibly(const Call& call, const View& out, TallyEntry* tally,
                      const Context& context) {
  const kernels::AttentionProblem& problem = call.problem;
  tally->nonpositive += ParallelReduce(
      context, problem.Groups(), 1, int64_t{0},
      [&](int64_t group, int64_t) {
        return CompatHead(call, group).Run(problem.OfQueries(out, group));
      },
      [](int64_t& total, int64_t part) { total += part; });
}

}  // namespace favor::attention
