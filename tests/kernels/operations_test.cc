// Every operation: in double against loops by hand, in float against double, gradients against
// central differences, and the same bits for any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/half.h"
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
      ExpectNear(name, exact_.Values(name), want, 0, 0);
    }
    ExpectTally(exact_.Tallied(), 0);
  }
  // Allows `more` roundings of f32 than on the CPU, which sums in double.
  void ExpectLikeDoubles(const OperationRun& run, DataType type = DataType::kF32,
                         double more = 0) const {
    for (const auto& [name, roundings] : case_.outputs) {
      const bool narrow = case_.arrays.at(name).TypeIn(type) == DataType::kBF16;
      // What is copied stays as it is.
      const double last = narrow && roundings.f32 > 0 ? kBF16 : 0;
      const double before = type == DataType::kBF16 ? roundings.bf16 * kBF16 : 0;
      ExpectNear(name, run.Values(name), exact_.Values(name),
                 before + std::ldexp(roundings.f32 + more, -24), last);
    }
    ExpectTally(run.Tallied(), case_.loss_roundings);
  }

 private:
  static constexpr double kBF16 = 0x1p-8;    // relative rounding
  static constexpr double kDoubles = 1e-12;  // of sums of thousands of terms

  // Within `of_size` of the size of the sum and `of_value` of its value.
  void ExpectNear(const std::string& name, const Numbers& have, const Numbers& want, double of_size,
                  double of_value) const {
    const std::vector<Sum>& sums = hand_.results.at(name);
    ASSERT_EQ(have.size(), sums.size()) << name;
    for (size_t i = 0; i < sums.size(); ++i)
      ASSERT_NEAR(have[i], want[i],
                  (kDoubles + of_size) * sums[i].size + of_value * std::fabs(want[i]))
          << name << " [" << i << "]";
  }
  void ExpectTally(const TallyEntry& have, double roundings) const {
    const TallyEntry& want = hand_.tally;
    EXPECT_EQ(have.correct, want.correct);
    EXPECT_EQ(have.targets, want.targets);
    if (std::isfinite(want.loss)) {
      EXPECT_NEAR(have.loss, want.loss, (kDoubles + std::ldexp(roundings, -24)) * hand_.loss_size);
    }
    if (std::isfinite(want.squared_norm)) {
      EXPECT_NEAR(have.squared_norm, want.squared_norm, kDoubles * want.squared_norm);
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
      UseSimd(simd);
      for (const int64_t shift : {0, 1}) {
        SCOPED_TRACE(operation.name + ", " + simd + ", shifted by " + std::to_string(shift));
        OperationRun run(operation, DataType::kF32, context, shift);
        operation.run(run);
        expected.ExpectLikeDoubles(run);
      }
    }
    UseSimd(best);
  }
}

class CudaOperations : public testing::Test {
 protected:
  static constexpr Device kGpu{.type = DeviceType::kCuda};

  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "there is no GPU";
  }

  // False if there is no kernel for the GPU.
  static bool Ran(const OperationCase& operation, OperationRun& run) {
    try {
      operation.run(run);
      return true;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("it runs on the cpu only"), std::string::npos)
          << error.what();
      return false;
    }
  }
  // With arrays at aligned addresses and at others. On the GPU, sums over a row are floats, added
  // as a tree, and a root is off by two units.
  static void ExpectLikeDoubles(const OperationCase& operation, DataType type) {
    const Context gpu({.device = kGpu});
    const Expected expected(operation);
    for (const int64_t shift : {0, 1}) {
      SCOPED_TRACE(operation.name + ", shifted by " + std::to_string(shift));
      OperationRun run(operation, type, gpu, shift);
      if (Ran(operation, run)) expected.ExpectLikeDoubles(run, type, /*more=*/4);
    }
  }
  // The case with arrays that are exact in bf16, except those that stay f32.
  static OperationCase RoundedToBF16(OperationCase operation) {
    for (auto& [name, stored] : operation.arrays) {
      if (stored.TypeIn(DataType::kBF16) != DataType::kBF16) continue;
      for (double& value : stored.values) value = FromBF16(ToBF16(value));
    }
    return operation;
  }
};

TEST_F(CudaOperations, AreThoseInDouble) {
  for (const OperationCase& operation : AllCases()) ExpectLikeDoubles(operation, DataType::kF32);
}

TEST_F(CudaOperations, InBF16AreThoseInDouble) {
  for (const OperationCase& operation : AllCases())
    ExpectLikeDoubles(RoundedToBF16(operation), DataType::kBF16);
}

TEST_F(CudaOperations, GiveTheSameBitsFromRunToRun) {
  const Context gpu({.device = kGpu});
  for (const OperationCase& operation : AllCases()) {
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      SCOPED_TRACE(operation.name + " " + std::string(Name(type)));
      OperationRun first(operation, type, gpu), second(operation, type, gpu);
      if (!Ran(operation, first) || !Ran(operation, second)) continue;
      for (const auto& [name, roundings] : operation.outputs)
        EXPECT_EQ(first.Values(name), second.Values(name)) << name;
      EXPECT_EQ(first.Tallied().loss, second.Tallied().loss);
      EXPECT_EQ(first.Tallied().squared_norm, second.Tallied().squared_norm);
    }
  }
}

// Among all types, with rows that lie apart and with columns for rows.
TEST_F(CudaOperations, CopyRoundsAsOnTheCpu) {
  const Context cpu({.threads = 2}), gpu({.device = kGpu});
  const DataType types[] = {DataType::kF32, DataType::kF64, DataType::kF16, DataType::kBF16};
  for (const Shape& shape : {Shape{37, 70}, Shape{5, 6, 64}, Shape{3, 2, 4, 8}, Shape{1001}}) {
    Tensor exact(shape, DataType::kF64);
    Numbers drawn(At(shape.Elements()));
    RandomStream(1, "copy").FillNormal(0, drawn);
    // From below the least f16 to above the largest.
    for (size_t i = 0; i < drawn.size(); ++i)
      exact.Data<double>()[i] = std::ldexp(drawn[i], static_cast<int>(i % 60) - 40);
    for (const DataType from : types) {
      for (const DataType to : types) {
        for (const char* layout : {"contiguous", "rows apart", "columns first"}) {
          SCOPED_TRACE(shape.ToString() + " " + std::string(Name(from)) + " to " +
                       std::string(Name(to)) + ", " + layout);
          const std::string kind = layout;
          const auto target = [&](Tensor& memory) -> View {
            if (kind == "contiguous") return memory;
            if (kind == "rows apart")
              return memory.view().Range(shape.rank() - 1, 8, shape[shape.rank() - 1]);
            Strides strides{};  // the first axis is the last in memory
            int64_t step = 1;
            for (int axis = 0; axis < shape.rank(); ++axis) {
              strides[At(axis)] = step;
              step *= shape[axis];
            }
            return {memory.view().data(), memory.type(), shape, strides, memory.device()};
          };
          const Shape room = shape.WithLast(shape[shape.rank() - 1] + 16);
          const Tensor source = exact.To(from), on_gpu = source.To(kGpu);
          Tensor want(kind == "rows apart" ? room : shape, to), have = want.To(kGpu);
          kernels::Copy({.from = source, .to = target(want)}, cpu);
          kernels::Copy({.from = on_gpu, .to = target(have)}, gpu);
          gpu.Wait();
          const Tensor got = have.To(Device{});
          EXPECT_EQ(
              std::memcmp(got.view().data(), want.view().data(), static_cast<size_t>(want.Bytes())),
              0);
        }
      }
    }
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
