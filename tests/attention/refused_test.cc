// Calls that attention refuses, and its errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "favor/error.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

struct BadCall {
  const char* name;
  std::function<void()> call;
  ErrorCode code;
  const char* says;
};

class RefusedCall : public testing::TestWithParam<BadCall> {};

TEST_P(RefusedCall, SaysWhy) {
  try {
    GetParam().call();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), GetParam().code) << error.what();
    EXPECT_NE(std::string(error.what()).find(GetParam().says), std::string::npos) << error.what();
  }
}

void Call(const Shape& q, const Shape& k, const Shape& v, const AttentionOptions& options = {}) {
  Attend(Tensor(q), Tensor(k), Tensor(v), options, Context());
}

constexpr ErrorCode kData = ErrorCode::kInvalidData, kOption = ErrorCode::kInvalidOption;
Tensor Filled(float value) {
  Tensor tensor({2, 2});
  std::fill_n(tensor.Data<float>(), 4, value);
  return tensor;
}

const Tensor kNan = [] {
  Tensor tensor({2, 2});
  tensor.Data<float>()[3] = NAN;
  return tensor;
}();
const Tensor kHuge = Filled(1e20f), kHugeValue = Filled(3e38f), kUnit = Filled(1),
             kLarge = Filled(30);
const Tensor kMean({7}), kMask({2, 3}), kOddMask = RandomTensor({5}, 1, 1);
// A good mask of the first sequence, a bad one of the second: [2, 5] and [2, 1, 5].
const Tensor kLateMask = [] {
  Tensor mask({2, 1, 5});
  mask.Data<float>()[8] = 0.5f;
  return mask;
}();

INSTANTIATE_TEST_SUITE_P(
    Attend, RefusedCall,
    testing::Values(
        BadCall{"Rank", [] { Call({4}, {4}, {4}); }, kData, "expected [L, d]"},
        BadCall{"Ranks",
                [] {
                  Call({5, 4}, {1, 5, 4}, {5, 4});
                },
                kData, "same number of axes"},
        BadCall{"Empty",
                [] {
                  Call({0, 4}, {5, 4}, {5, 4});
                },
                kData, "at least one row"},
        BadCall{"Dim",
                [] {
                  Call({5, 4}, {5, 3}, {5, 4});
                },
                kData, "k of dim 4"},
        BadCall{"Lengths",
                [] {
                  Call({5, 4}, {5, 4}, {6, 4});
                },
                kData, "as many values as keys"},
        BadCall{"Batch",
                [] {
                  Call({2, 1, 5, 4}, {1, 1, 5, 4}, {1, 1, 5, 4});
                },
                kData, "same batch"},
        BadCall{"Heads",
                [] {
                  Call({3, 5, 4}, {2, 5, 4}, {2, 5, 4});
                },
                kData, "given 3 heads of q and 2 of k"},
        BadCall{"ValueHeads",
                [] {
                  Call({2, 5, 4}, {2, 5, 4}, {1, 5, 4});
                },
                kData, "heads of v"},
        BadCall{"CausalLengths",
                [] {
                  Call({5, 4}, {6, 4}, {6, 4}, {.causal = true});
                },
                kData, "same number in a causal call"},
        BadCall{"MaskShape",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.key_mask = kMask});
                },
                kData, "key mask: given shape [2, 3]"},
        BadCall{"MaskValues",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.key_mask = kOddMask});
                },
                kData, "expected 0 (no such key) or 1"},
        BadCall{"MaskValuesOfLaterSequences",
                [] {
                  Call({2, 1, 5, 4}, {2, 1, 5, 4}, {2, 1, 5, 4},
                       {.key_mask = ConstView(kLateMask.Data<float>(), {2, 5})});
                },
                kData, "given the value 0.5, expected 0 (no such key) or 1"},
        BadCall{"MaskValuesOfLaterHeads",
                [] {
                  Call({2, 1, 5, 4}, {2, 1, 5, 4}, {2, 1, 5, 4}, {.key_mask = kLateMask});
                },
                kData, "given the value 0.5, expected 0 (no such key) or 1"},
        BadCall{"Name",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.attention = "linaer"});
                },
                kOption, "did you mean 'linear'?"},
        BadCall{"Scale",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.scale = -1});
                },
                kOption, "above 0"},
        BadCall{"ScaleNan",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.attention = "exact", .scale = NAN});
                },
                kOption, "finite"},
        BadCall{"Chunk",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.chunk = 0});
                },
                kOption, "chunk: given 0"},
        BadCall{"CausalCentring",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.causal = true, .center_keys = true});
                },
                kOption, "frozen mean"},
        BadCall{"CausalOprf",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.causal = true, .features = {.map = "oprf"}});
                },
                kOption, "--oprf-a"},
        BadCall{"MeanShape",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.center_keys = true, .key_mean = kMean});
                },
                kData, "key mean: given shape [7]"},
        BadCall{"MeanWithoutCentring",
                [] {
                  Call({5, 7}, {5, 7}, {5, 4}, {.key_mean = kMean});
                },
                kOption, "not to be centred"},
        BadCall{"CentringOfOtherKernels",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.features = {.map = "relu"}, .center_keys = true});
                },
                kOption, "softmax kernel"},
        BadCall{"CentringOfExact",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.attention = "exact", .center_keys = true});
                },
                kOption, "belong to linear attention"},
        BadCall{
            "CompatMap",
            [] {
              Call({5, 4}, {5, 4}, {5, 4}, {.features = {.map = "oprf"}, .compat = Compat::kJax});
            },
            kOption, "compat"},
        BadCall{"CompatPlan",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4},
                       {.plan = FeaturePlan::Draw({}, 1, 5, 0), .compat = Compat::kJax});
                },
                kData, "given a plan"},
        BadCall{"CompatScale",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.scale = -1, .compat = Compat::kJax});
                },
                kOption, "above 0"},
        BadCall{"NanQuery",
                [] {
                  Attend(kNan, Tensor({2, 2}), Tensor({2, 2}), {}, Context());
                },
                kData, "q: given NaN or infinity in row 1"},
        BadCall{"NanValue",
                [] {
                  Attend(Tensor({2, 2}), Tensor({2, 2}), kNan, {.attention = "exact"}, Context());
                },
                kData, "v: given NaN"},
        BadCall{"HugeKey",
                [] {
                  Attend(Tensor({2, 2}), kHuge, Tensor({2, 2}), {}, Context());
                },
                kData, "k: given values up to 1e+20"},
        BadCall{
            "HugeScale",
            [] { Attend(kUnit, kUnit, kUnit, {.attention = "exact", .scale = 1e300}, Context()); },
            kData, "at scale 1e+300"},
        BadCall{"HugeValue",
                [] {
                  Attend(Tensor({2, 2}), Tensor({2, 2}), kHugeValue, {}, Context());
                },
                kData, "v: given values up to 3e+38"},
        BadCall{"UnnormalizedOverflow",
                [] {
                  Attend(kLarge, kLarge, kUnit, {.attention = "exact", .renormalize = false},
                         Context());
                },
                kData, "exceeds the range of f32"},
        BadCall{"MatrixRank", [] { AttentionMatrix(Tensor({4}), Tensor({4}), {}, Context()); },
                kData, "expected [L, d]"},
        BadCall{"IdentityLengths",
                [] {
                  Call({5, 4}, {6, 4}, {6, 4}, {.attention = "identity"});
                },
                kData, "identity"},
        BadCall{"Plan",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.plan = FeaturePlan::Draw({}, 2, 4, 0)});
                },
                kData, "given a plan of 2 heads"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace favor
