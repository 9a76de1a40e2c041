// Every operation: in double against loops by hand, in float against double, gradients against
// central differences, and the same bits for any number of threads.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/simd.h"
#include "kernels/adamw.h"
#include "kernels/copy.h"
#include "tests/kernels/operation_case.h"
#include "tests/layers/check_gradients.h"

namespace favor {
namespace {

std::vector<OperationCase> AllCases() {
  std::vector<OperationCase> all;
  for (auto&& cases : {TokenCases(), LayerCases(), HeadCases(), UnitCases(), UpdateCases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

// A case with its expected results.
class Expected {
 public:
  explicit Expected(const OperationCase& operation)
      : case_(operation), exact_(case_, DataType::kF64, context_) {
    for (const auto& [name, stored] : case_.arrays) hand_.values[name] = stored.values;
    for (const auto& [name, roundings] : case_.outputs) {
      for (const double value : case_.arrays.at(name).values)
        hand_.results[name].push_back({value, std::fabs(value)});
    }
    hand_.tally = case_.tally;
    case_.by_hand(hand_);
    case_.run(exact_);
  }

  void ExpectDoublesByHand() const {
    for (const auto& [name, roundings] : case_.outputs) {
      Numbers want;
      for (const Sum& sum : hand_.results.at(name)) want.push_back(sum.value);
      ExpectNear(name, exact_.Values(name), want, 0);
    }
    ExpectTally(exact_.Tallied(), 0);
  }
  // Allows `more` roundings of f32 than on the CPU, which sums in double.
  void ExpectLikeDoubles(const OperationRun& run, double more = 0) const {
    for (const auto& [name, roundings] : case_.outputs)
      ExpectNear(name, run.Values(name), exact_.Values(name), roundings + more);
    ExpectTally(run.Tallied(), case_.loss_roundings);
  }

 private:
  // Tolerance relative to the size of a sum. In double, sums of thousands of terms are known to
  // 1e-12.
  static double Relative(double roundings) { return 1e-12 + std::ldexp(roundings, -24); }

  void ExpectNear(const std::string& name, const Numbers& have, const Numbers& want,
                  double roundings) const {
    const std::vector<Sum>& sums = hand_.results.at(name);
    for (size_t i = 0; i < sums.size(); ++i)
      ASSERT_NEAR(have[i], want[i], Relative(roundings) * sums[i].size) << name << " [" << i << "]";
  }
  void ExpectTally(const TallyEntry& have, double roundings) const {
    const TallyEntry& want = hand_.tally;
    EXPECT_EQ(have.correct, want.correct);
    EXPECT_EQ(have.targets, want.targets);
    if (std::isfinite(want.loss)) {
      EXPECT_NEAR(have.loss, want.loss, Relative(roundings) * hand_.loss_size);
    }
    if (std::isfinite(want.squared_norm)) {
      EXPECT_NEAR(have.squared_norm, want.squared_norm, Relative(0) * want.squared_norm);
    }
  }

  Context context_{{.threads = 2}};
  const OperationCase& case_;
  Hand hand_;
  OperationRun exact_;
};

TEST(Operations, InDoubleAreWhatIsComputedByHand) {
  for (const OperationCase& operation : AllCases()) {
    SCOPED_TRACE(operation.name);
    Expected(operation).ExpectDoublesByHand();
  }
}

TEST(Operations, InFloatAreThoseInDoubleOnEverySimdTarget) {
  const Context context({.threads = 2});
  const std::string best = SimdName();
  for (const OperationCase& operation : AllCases()) {
    const Expected expected(operation);
    for (const std::string& simd : SimdNames()) {
      SCOPED_TRACE(operation.name + ", " + simd);
      UseSimd(simd);
      OperationRun run(operation, DataType::kF32, context);
      operation.run(run);
      expected.ExpectLikeDoubles(run);
    }
    UseSimd(best);
  }
}

TEST(CudaOperations, AreThoseInDouble) {
  if (ListGpus().empty()) GTEST_SKIP() << "there is no GPU";
  const Context gpu({.device = {.type = DeviceType::kCuda}});
  for (const OperationCase& operation : AllCases()) {
    SCOPED_TRACE(operation.name);
    OperationRun run(operation, DataType::kF32, gpu);
    try {
      operation.run(run);
    } catch (const Error& error) {
      // Not every operation has a kernel on the GPU yet.
      EXPECT_NE(std::string(error.what()).find("it runs on the cpu only"), std::string::npos)
          << error.what();
      continue;
    }
    // On the GPU, sums over a row are floats, added as a tree, and a root is off by two units.
    Expected(operation).ExpectLikeDoubles(run, /*more=*/4);
  }
}

TEST(Operations, GiveTheSameBitsForAnyNumberOfThreads) {
  for (const OperationCase& operation : AllCases()) {
    SCOPED_TRACE(operation.name);
    const Context one({.threads = 1});
    OperationRun first(operation, DataType::kF32, one);
    operation.run(first);
    for (const int threads : {2, 3, 8}) {
      const Context context({.threads = threads});
      OperationRun run(operation, DataType::kF32, context);
      operation.run(run);
      for (const auto& [name, roundings] : operation.outputs)
        EXPECT_EQ(run.Values(name), first.Values(name)) << name << ", threads: " << threads;
      EXPECT_EQ(run.Tallied().loss, first.Tallied().loss) << threads;
      EXPECT_EQ(run.Tallied().squared_norm, first.Tallied().squared_norm) << threads;
    }
  }
}

TEST(Operations, HaveTheGradientsOfCentralDifferences) {
  const Context context({.threads = 2});
  for (const OperationCase& operation : AllCases()) {
    SCOPED_TRACE(operation.name);
    for (const auto& [name, of] : operation.gradients) {
      OperationRun run(operation, DataType::kF64, context);
      kernels::Zero({.y = run[name]}, context);  // some gradients are added to the array
      operation.run(run);
      const Numbers gradient = run.Values(name);
      const ConstView view(gradient.data(), operation.arrays.at(name).shape);
      const View y = run["y"], grad_y = run["grad_y"];
      const auto loss = [&] {
        operation.forward(run);
        double sum = 0;
        for (int64_t i = 0; i < y.shape().Elements(); ++i)
          sum += y.Data<double>()[i] * grad_y.Data<double>()[i];
        return sum;
      };
      ExpectGradient(name, run[of], view, loss, 1e-7, /*most=*/15);
    }
  }
}

// If any layer counts unusable rows, the weights stay as they are.
TEST(AdamW, ReadsEveryEntryOfTheTally) {
  const Context context({.threads = 1});
  for (const int64_t bad : {-1, 0, 1, 2}) {
    std::vector<TallyEntry> tally(3);
    if (bad >= 0) tally[static_cast<size_t>(bad)].unusable = 1;
    const float gradient = 1;
    float value = 0.5f, first = 0, second = 0;
    const kernels::Segment segment{.begin = 0, .count = 1, .decays = false};
    kernels::AdamW({.beta1 = 0.9,
                    .beta2 = 0.98,
                    .epsilon = 1e-9,
                    .weight_decay = 0,
                    .step = 1,
                    .rate = 0.25,
                    .tally = tally.data(),
                    .entries = 3,
                    .segments = {&segment, 1},
                    .gradients = ConstView(&gradient, {1}),
                    .values = View(&value, {1}),
                    .first = View(&first, {1}),
                    .second = View(&second, {1})},
                   context);
    EXPECT_NEAR(value, bad >= 0 ? 0.5 : 0.25, 1e-6) << bad;
    EXPECT_EQ(first == 0, bad >= 0) << bad;
  }
}

// Types are converted, rounded to nearest, and rows may lie apart.
TEST(Copy, ConvertsTypes) {
  const Context context({.threads = 2});
  constexpr int64_t kRows = 300, kColumns = 70;
  Tensor exact({kRows, kColumns}, DataType::kF64);
  Numbers drawn(static_cast<size_t>(kRows * kColumns));
  RandomStream(1, "copy").FillNormal(0, drawn);
  std::ranges::copy(drawn, exact.Data<double>());
  for (const DataType type : {DataType::kF32, DataType::kF16, DataType::kBF16}) {
    Tensor narrow({kRows, kColumns}, type), back({kRows, 2 * kColumns}, DataType::kF64);
    kernels::Copy({.from = exact, .to = narrow}, context);
    kernels::Copy({.from = narrow, .to = back.view().Range(1, 3, kColumns)}, context);
    // Half of the last of 24, 11 and 8 bits.
    const int bits = type == DataType::kF32 ? 24 : type == DataType::kF16 ? 11 : 8;
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      const double have = back.Data<double>()[i / kColumns * 2 * kColumns + 3 + i % kColumns];
      const double want = exact.Data<double>()[i];
      ASSERT_NEAR(have, want, std::ldexp(std::fabs(want), -bits) + 1e-7) << Name(type) << " " << i;
    }
    EXPECT_EQ(back.Data<double>()[2], 0);
    EXPECT_EQ(back.Data<double>()[3 + kColumns], 0);
  }
}

// Arrays on a GPU are refused by an operation without a kernel there.
TEST(Backend, RefusesWhatHasNoKernel) {
  const Context context({.threads = 1});
  float number = 1;
  const View gpu(&number, DataType::kF32, {1}, RowMajorStrides({1}),
                 {.type = DeviceType::kCuda, .index = 0});
  try {
    kernels::Run<kernels::ZeroArguments>(
        {.name = "zero", .reference = kernels::cpu::Zero, .cpu = kernels::cpu::Zero}, gpu, {gpu},
        context);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_STREQ(error.what(), "zero: given arrays on cuda:0, it runs on the cpu only");
  }
  EXPECT_EQ(number, 1);
}

}  // namespace
}  // namespace favor
