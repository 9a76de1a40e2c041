// States on a GPU. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/device.h"
#include "favor/error.h"
#include "favor/state.h"
#include "tests/attention/oracle.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};
constexpr int64_t kBatch = 2, kHeads = 4, kKvHeads = 2, kLength = 150, kDim = 16, kValueDim = 24;

// The largest difference from the CPU's result, relative to its largest element.
double ErrorOf(const Tensor& got, const Tensor& want) {
  return LargestDifference(got.To(Device{}), want) / LargestAbsolute(want);
}

// Rows first … first + count − 1 of all heads.
ConstView Rows(const Tensor& tensor, int64_t first, int64_t count) {
  return tensor.view().Range(2, first, count);
}

class CudaState : public testing::Test {
 protected:
  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
    gpu_.emplace(ContextOptions{.device = kGpu});
    q_there_ = q_.To(kGpu);
    k_there_ = k_.To(kGpu);
    v_there_ = v_.To(kGpu);
  }

  StateOptions Options(const Device& device) const {
    return {.batch = kBatch, .value_dim = kValueDim, .key_mean = mean_, .device = device};
  }

  const FeaturePlan plan_ = FeaturePlan::Draw({.features = 48}, kHeads, kDim, 1);
  const Tensor q_ = RandomTensor({kBatch, kHeads, kLength, kDim}, 0.7, 1),
               k_ = RandomTensor({kBatch, kKvHeads, kLength, kDim}, 0.7, 2),
               v_ = RandomTensor({kBatch, kKvHeads, kLength, kValueDim}, 1, 3),
               mean_ = RandomTensor({kHeads, kDim}, 0.3, 4);
  Tensor q_there_, k_there_, v_there_;
  const Context cpu_;
  std::optional<Context> gpu_;
};

TEST_F(CudaState, PiecesEqualOneCallAndTheCpu) {
  AttentionState whole(plan_, Options(kGpu)), pieces(plan_, Options(kGpu)),
      on_cpu(plan_, Options({}));
  EXPECT_EQ(whole.device(), kGpu);
  whole.Append(k_there_, v_there_, *gpu_);
  int64_t first = 0;
  for (const int64_t count : {1, 2, 67, 80}) {
    pieces.Append(Rows(k_there_, first, count), Rows(v_there_, first, count), *gpu_);
    first += count;
  }
  on_cpu.Append(k_, v_, cpu_);
  EXPECT_EQ(whole.tokens(), kLength);
  EXPECT_EQ(pieces.tokens(), kLength);
  EXPECT_EQ(pieces.end(), kLength);
  const Tensor want = on_cpu.Attend(q_, cpu_), got = whole.Attend(q_there_, *gpu_);
  EXPECT_EQ(got.device(), kGpu);
  EXPECT_LE(ErrorOf(got, want), 1e-5);
  EXPECT_LE(ErrorOf(pieces.Attend(q_there_, *gpu_), want), 1e-5);
  const AttentionState::Parts parts = pieces.Read(q_there_, *gpu_),
                              parts_on_cpu = on_cpu.Read(q_, cpu_);
  const Tensor rho = parts.log_scale.To(Device{}), numerator = parts.numerator.To(Device{});
  for (int64_t row = 0; row < kBatch * kHeads * kLength; ++row) {
    const double factor =
        std::exp(rho.Data<double>()[row] - parts_on_cpu.log_scale.Data<double>()[row]);
    for (int64_t i = row * kValueDim; i < (row + 1) * kValueDim; ++i)
      ASSERT_NEAR(factor * numerator.Data<double>()[i], parts_on_cpu.numerator.Data<double>()[i],
                  1e-4 * LargestAbsolute(parts_on_cpu.numerator))
          << row;
  }
}

TEST_F(CudaState, ContinuesLikeACausalCall) {
  const Tensor want = Attend(
      q_, k_, v_, {.causal = true, .plan = plan_, .center_keys = true, .key_mean = mean_}, cpu_);
  AttentionState state(plan_, Options(kGpu));
  Tensor got({kBatch, kHeads, kLength, kValueDim}, DataType::kF32, kGpu);
  int64_t first = 0;
  for (const int64_t count : {1, 1, 100, 48}) {
    state.ContinueInto(
        {Rows(q_there_, first, count), Rows(k_there_, first, count), Rows(v_there_, first, count)},
        *gpu_,
        View(got.Data<float>() + first * kValueDim, DataType::kF32,
             {kBatch, kHeads, count, kValueDim}, got.view().strides(), kGpu));
    first += count;
  }
  EXPECT_LE(ErrorOf(got, want), 1e-5);
}

TEST_F(CudaState, ForgetsAndTakesMasks) {
  Tensor mask({kLength}), decay({kHeads, kLength}, DataType::kF64);
  for (int64_t i = 0; i < kLength; ++i) mask.Data<float>()[i] = i % 5 == 2 ? 0.0f : 1.0f;
  for (int64_t i = 0; i < kHeads * kLength; ++i)
    decay.Data<double>()[i] = -0.02 * static_cast<double>(i % 7);
  const TokenOptions tokens{.key_mask = mask, .log_decay = decay};
  StateOptions options = Options(kGpu);
  options.forgets = true;
  AttentionState state(plan_, options);
  options.device = {};
  AttentionState on_cpu(plan_, options);
  EXPECT_LE(ErrorOf(state.Continue(q_there_, k_there_, v_there_, *gpu_, tokens),
                    on_cpu.Continue(q_, k_, v_, cpu_, tokens)),
            1e-5);
  EXPECT_EQ(state.tokens(), on_cpu.tokens());
  state.Append(k_there_, v_there_, *gpu_, tokens);
  on_cpu.Append(k_, v_, cpu_, tokens);
  EXPECT_LE(ErrorOf(state.Attend(q_there_, *gpu_), on_cpu.Attend(q_, cpu_)), 1e-5);
}

TEST_F(CudaState, MergesInOrder) {
  for (const bool forgets : {false, true}) {
    Tensor decay({kLength});
    for (int64_t i = 0; i < kLength; ++i)
      decay.Data<float>()[i] = -0.03f * static_cast<float>(i % 4);
    const auto tokens = [&](int64_t first, int64_t count) {
      return TokenOptions{
          .key_mask = {},
          .log_decay = forgets ? std::as_const(decay).view().Range(0, first, count) : ConstView()};
    };
    StateOptions options = Options(kGpu);
    options.forgets = forgets;
    AttentionState all(plan_, options), first(plan_, options), empty(plan_, options);
    options.begin = 90;
    AttentionState second(plan_, options);
    all.Append(k_there_, v_there_, *gpu_, tokens(0, kLength));
    first.Append(Rows(k_there_, 0, 90), Rows(v_there_, 0, 90), *gpu_, tokens(0, 90));
    second.Append(Rows(k_there_, 90, 60), Rows(v_there_, 90, 60), *gpu_, tokens(90, 60));
    AttentionState merged = empty.Clone();
    merged.Merge(first, *gpu_);
    merged.Merge(second, *gpu_);
    EXPECT_EQ(merged.tokens(), kLength);
    EXPECT_EQ(merged.end(), kLength);
    const Tensor want = all.Attend(q_there_, *gpu_).To(Device{});
    EXPECT_LE(ErrorOf(merged.Attend(q_there_, *gpu_), want), 1e-6);
    AttentionState host = first.To(Device{});
    host.Merge(second.To(Device{}));
    EXPECT_LE(ErrorOf(host.Attend(q_, cpu_), want), 1e-5);
  }
}

TEST_F(CudaState, RefusesToMergeWithoutAContextOrOnTwoDevices) {
  AttentionState state(plan_, Options(kGpu)), other(plan_, Options(kGpu)), host = state.To({});
  try {
    state.Merge(other);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "state: given states on cuda:0 to merge, expected a context there");
  }
  try {
    state.Merge(host, *gpu_);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "state: cannot merge these states: the device differs");
  }
}

TEST_F(CudaState, FilesCarryStatesBetweenDevices) {
  const TempDir dir;
  const std::string path = dir / "state.favor", back = dir / "back.favor";
  AttentionState state(plan_, Options(kGpu));
  state.Append(k_there_, v_there_, *gpu_);
  state.Save(path);
  const AttentionState on_cpu = AttentionState::Load(path);
  EXPECT_EQ(on_cpu.device(), Device{});
  EXPECT_EQ(on_cpu.tokens(), kLength);
  const Tensor want = state.Attend(q_there_, *gpu_).To(Device{});
  EXPECT_LE(ErrorOf(on_cpu.Attend(q_, cpu_), want), 1e-5);
  on_cpu.Save(back);
  const AttentionState again = AttentionState::Load(back).To(kGpu);
  EXPECT_EQ(LargestDifference(again.Attend(q_there_, *gpu_).To(Device{}), want), 0);
}

// In float, a sum over a million keys would no longer change with the next key.
TEST_F(CudaState, AMillionEqualKeysDoNotDrift) {
  constexpr int64_t kCount = 1 << 15, kTimes = 32;
  const auto plan = FeaturePlan::Draw({.features = 32}, 1, 8, 1);
  AttentionState state(plan, {.value_dim = 1, .device = kGpu});
  Tensor k({kCount, 8}), v({kCount, 1});
  std::fill_n(k.Data<float>(), kCount * 8, 0.3f);
  std::fill_n(v.Data<float>(), kCount, 1.0f);
  const Tensor keys = k.To(kGpu), ones = v.To(kGpu);
  for (int64_t i = 0; i < kTimes; ++i) state.Append(keys, ones, *gpu_);
  EXPECT_EQ(state.tokens(), kCount * kTimes);
  Tensor q({1, 8});
  const AttentionState::Parts parts = state.Read(q.To(kGpu), *gpu_);
  const double sum = parts.numerator.To(Device{}).Data<double>()[0] *
                     std::exp(parts.log_scale.To(Device{}).Data<double>()[0]);
  AttentionState one(plan, {.value_dim = 1, .device = kGpu});
  one.Append(keys.view().Range(0, 0, 1), ones.view().Range(0, 0, 1), *gpu_);
  const AttentionState::Parts single = one.Read(q.To(kGpu), *gpu_);
  const double unit = single.numerator.To(Device{}).Data<double>()[0] *
                      std::exp(single.log_scale.To(Device{}).Data<double>()[0]);
  EXPECT_NEAR(sum / unit / static_cast<double>(kCount * kTimes), 1, 1e-5);
}

}  // namespace
}  // namespace favor
