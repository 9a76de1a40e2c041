// Gradients of every kind of attention: the reference against central differences, the fast kernels
// on every SIMD target against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/attention/gradient_case.h"

namespace favor {
namespace {

// Every variation of a call, for one map.
std::vector<Case> Ways(const std::string& attention, const std::string& map) {
  std::vector<Case> ways;
  for (const bool causal : {false, true}) {
    const Case plain{.attention = attention, .map = map, .causal = causal};
    ways.push_back(plain);
    const auto add = [&](const std::function<void(Case&)>& change) {
      ways.push_back(plain);
      change(ways.back());
    };
    add([](Case& c) { c.masked = true; });
    if (!causal) add([](Case& c) { c.cross = true; });
    add([](Case& c) { c.grouped = true; });
    add([](Case& c) { c.normalize = false; });
    add([](Case& c) {
      c.grouped = c.masked = true;
      c.normalize = false;
    });
  }
  return ways;
}

std::vector<Case> CentredWays(const std::string& map) {
  std::vector<Case> ways;
  for (const bool normalize : {true, false}) {
    const Case frozen{.map = map, .normalize = normalize, .centred = true, .frozen_mean = true};
    ways.push_back(frozen);
    ways.push_back(frozen);
    ways.back().causal = true;
    ways.push_back(frozen);
    ways.back().frozen_mean = false;
    ways.push_back(ways.back());
    ways.back().grouped = ways.back().masked = true;
  }
  return ways;
}

class MapGradients : public testing::TestWithParam<std::string> {};

TEST_P(MapGradients, OfTheReferenceAreCentralDifferences) {
  for (const Case& way : Ways("linear", GetParam())) ExpectCentralDifferences(way);
}

// Sizes with remainders of vectors, tiles and chunks.
TEST_P(MapGradients, OfTheFastKernelsAreThoseOfTheReferenceOnEverySimdTarget) {
  for (Case way : Ways("linear", GetParam())) {
    SCOPED_TRACE(way.Name());
    way.length = 150;
    way.dim = 19;
    way.value_dim = 21;
    way.features = 37;
    way.deviation = 0.7;
    Call call(way);
    // Denominators of signed maps can be small, and rounding grows with them; but taylor's kernel
    // is positive.
    const bool tame =
        call.options.plan->map().nonnegative || GetParam() == "taylor" || !way.normalize;
    ExpectReferenceOnEverySimdTarget(call, tame ? 1e-5 : 1e-3);
  }
}

std::vector<std::string> MapNames() {
  std::vector<std::string> names;
  for (const FeatureMapInfo& info : Maps()) names.emplace_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Maps, MapGradients, testing::ValuesIn(MapNames()), [](const auto& test) {
  std::string name = test.param;
  std::erase(name, '-');
  return name;
});

TEST(Gradients, OfCentredKeysAreCentralDifferences) {
  for (const char* map : {"positive", "trigonometric", "hyperbolic"}) {
    for (const Case& way : CentredWays(map)) ExpectCentralDifferences(way);
  }
}

TEST(Gradients, OfCentredKeysInFloatAreThoseOfTheReference) {
  const Context context;
  for (Case way : CentredWays("positive")) {
    SCOPED_TRACE(way.Name());
    way.length = 140;
    Call call(way);
    const AttentionGradients got = call.Gradients(context);
    call.options.reference = true;
    const AttentionGradients want = call.Gradients(context);
    ExpectNear(got, want, 1e-5);
  }
}

TEST(Gradients, OfExactAttentionAndBaselinesAreCentralDifferences) {
  for (const char* kind : {"exact", "exact-window", "identity", "uniform"}) {
    for (const Case& way : Ways(kind, "")) {
      if (!way.cross || way.TakesCross()) ExpectCentralDifferences(way);
    }
  }
}

TEST(Gradients, OfFastExactAttentionAreThoseOfTheReferenceOnEverySimdTarget) {
  for (const char* kind : {"exact", "exact-window", "identity", "uniform"}) {
    for (Case way : Ways(kind, "")) {
      if (way.cross && !way.TakesCross()) continue;
      SCOPED_TRACE(way.Name());
      way.length = 333;
      way.dim = 19;
      way.value_dim = 21;
      Call call(way);
      ExpectReferenceOnEverySimdTarget(call, 1e-5);
    }
  }
}

// Enough blocks of 256 rows that they meet in several waves, with remainders; more keys than
// queries in a cross call.
TEST(Gradients, OfManyBlocksOfExactAttentionAreThoseOfTheReference) {
  const Context context({.threads = 2});
  for (const bool causal : {false, true}) {
    Call call({.attention = "exact",
               .causal = causal,
               .masked = true,
               .cross = !causal,
               .grouped = true,
               .length = 811});
    const AttentionGradients got = call.Gradients(context);
    call.options.reference = true;
    ExpectNear(got, call.Gradients(context), 1e-5);
  }
}

}  // namespace
}  // namespace favor
