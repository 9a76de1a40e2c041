#include "experiments/separation_contestants.h"

#include <fmt/format.h>

namespace favor::experiments {
namespace {

using Contestants = std::vector<Contestant>;

AttentionOptions Linear(std::string_view map) {
  return {.attention = "linear", .features = {.map = std::string(map)}};
}

// One for each softmax map, named "MAP" and the text; `prepare` changes it, or returns false to
// leave it out.
template <class Prepare>
void AddSoftmaxMaps(const std::string& text, const Prepare& prepare, Contestants& contestants) {
  for (const FeatureMapInfo& map : Maps()) {
    if (map.kernel != KernelFamily::kSoftmax && map.kernel != KernelFamily::kRegularizedSoftmax)
      continue;
    Contestant contestant{.name = std::string(map.name) + text, .attention = Linear(map.name)};
    if (prepare(map, contestant)) contestants.push_back(std::move(contestant));
  }
}

bool AsItIs(const FeatureMapInfo&, Contestant&) { return true; }

// The kernel of `regularized` changes if keys are centred.
bool CentreKeys(const FeatureMapInfo& map, Contestant& contestant) {
  contestant.attention.center_keys = true;
  return map.kernel == KernelFamily::kSoftmax;
}

// Weights (q·k)^degree; the rows are sparse, which poly-sum mends by a rotation.
Contestant Power(const char* map, int64_t degree) {
  Contestant contestant{.name = fmt::format("{}: weights (q·k)^{}", map, degree),
                        .attention = Linear(map)};
  contestant.attention.features.degree = degree;
  contestant.attention.features.rotate = std::string_view(map) == "poly-sum";
  return contestant;
}

constexpr int64_t kRandomDegree = 8, kFarWindow = 20;
constexpr double kLocalWidth = 2;

// The paper's linear attention, polynomials of the logit, and two baselines.
Contestants FixedForAll(std::initializer_list<int64_t> degrees) {
  AttentionOptions identity = Linear("identity");
  identity.features.projection = "none";
  identity.features.kernel_epsilon = 0;
  Contestants all = {{.name = "exact", .attention = {.attention = "exact"}},
                     {.name = "uniform", .attention = {.attention = "uniform"}},
                     {.name = "identity features: weights q·k", .attention = identity},
                     {.name = "taylor1: weights 1 + q·k", .attention = Linear("taylor1")},
                     {.name = "taylor: weights 1 + q·k + (q·k)²/2", .attention = Linear("taylor")}};
  for (const int64_t degree : degrees) all.push_back(Power("poly-exact", degree));
  return all;
}

// In self-attention, queries and keys are the same tokens: there are near ones.
void AddWindows(Contestants& contestants) {
  for (const int64_t window : {5, 20, 80}) {
    Contestant contestant{.name = fmt::format("exact-window, {} to each side", window),
                          .attention = {.attention = "exact-window"}};
    contestant.attention.kind_options = {{"window", window}};
    contestants.push_back(std::move(contestant));
  }
}

}  // namespace

Contestants DrawnForOnes() {
  Contestants all;
  AddSoftmaxMaps("", AsItIs, all);
  AddSoftmaxMaps(", centred keys", CentreKeys, all);
  return all;
}

Contestants DrawnForSelf() {
  Contestants all = DrawnForOnes();
  for (const char* map : {"poly-sum", "poly-sketch"}) all.push_back(Power(map, kRandomDegree));
  for (const char* map : {"local-gaussian", "local-laplace"}) {
    all.push_back(
        {.name = fmt::format("{}, width {}", map, kLocalWidth), .attention = Linear(map)});
    all.back().attention.features.local_width = kLocalWidth;
  }
  for (const char* kind : {"window", "hybrid"}) {
    all.push_back({.name = fmt::format("{}, {} to each side", kind, kFarWindow),
                   .attention = Linear("positive")});
    all.back().attention.attention = kind;
    all.back().attention.kind_options = {{"window", kFarWindow}};
  }
  return all;
}

// Queries are 16 times as long as keys: dividing them by 4 makes both equally long. Polynomials do
// not see it.
Contestants DrawnForCross() {
  const auto balance = [](const FeatureMapInfo& map, Contestant& contestant) {
    contestant.gain = 0.25;
    return CentreKeys(map, contestant);
  };
  Contestants all;
  AddSoftmaxMaps("", AsItIs, all);
  AddSoftmaxMaps(", q/4, 4k, centred keys", balance, all);
  AddSoftmaxMaps(
      ", q/4, 4k, q in the span of the centred keys",
      [&](const FeatureMapInfo& map, Contestant& contestant) {
        contestant.on_span = true;
        return balance(map, contestant);
      },
      all);
  for (const char* map : {"poly-sum", "poly-sketch"}) all.push_back(Power(map, kRandomDegree));
  return all;
}

Contestants FixedForSelf() {
  Contestants all = FixedForAll({2, 4});
  AddWindows(all);
  return all;
}

// Of dim 1, a power has one feature.
Contestants FixedForOnes() {
  Contestants all = FixedForAll({2, 4, 8, 16});
  AddWindows(all);
  return all;
}

Contestants FixedForCross() { return FixedForAll({2, 4, 6}); }

}  // namespace favor::experiments
