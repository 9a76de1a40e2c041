// All parameters of a model in one array, their gradients in another, and a copy for passes.
#include "layers/parameter.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "favor/error.h"
#include "favor/random.h"

namespace favor {
namespace {

using layers::Parameter;
using layers::ParameterSet;

void AddSome(ParameterSet& parameters) {
  parameters.Add("a", {3, 5}, {.deviation = 0.5}, /*decays=*/true);
  parameters.Add("b", {16}, {.mean = 2}, /*decays=*/false);
  parameters.Add("c", {1}, {.mean = 1, .deviation = 0.25}, /*decays=*/true);
  parameters.Allocate();
}

const std::byte* Bytes(const ConstView& view) { return static_cast<const std::byte*>(view.data()); }

TEST(ParameterSet, IsOneArrayWhoseParametersStartAtMultiplesOf64Bytes) {
  for (const DataType type : {DataType::kF32, DataType::kF64}) {
    ParameterSet parameters({.seed = 3, .type = type});
    AddSome(parameters);
    const Context context({.threads = 1});
    parameters.ZeroGradients(context);
    EXPECT_EQ(parameters.Count(), 3 * 5 + 16 + 1);
    const kernels::Segments segments = parameters.segments();
    ASSERT_EQ(segments.count, 3);
    int64_t end = 0;
    for (size_t i = 0; i < 3; ++i) {
      const Parameter& parameter = *parameters.all()[i];
      const kernels::Segment& segment = segments.data[i];
      EXPECT_EQ(segment.begin, parameter.begin);
      EXPECT_EQ(segment.count, parameter.shape.Elements());
      EXPECT_EQ(segment.decays, parameter.decays);
      EXPECT_GE(segment.begin, end);
      end = segment.begin + segment.count;
      const int64_t offset = segment.begin * ItemBytes(type);
      EXPECT_EQ(offset % 64, 0);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(parameter.value.data()) % 64, 0u);
      EXPECT_EQ(Bytes(parameter.value), Bytes(parameters.values()) + offset);
      EXPECT_EQ(Bytes(parameter.grad), Bytes(parameters.gradients()) + offset);
      EXPECT_EQ(parameter.value.shape(), parameter.shape);
    }
    EXPECT_LE(end, parameters.values().size(0));
    EXPECT_EQ(parameters.values().shape(), parameters.gradients().shape());
  }
}

TEST(ParameterSet, DrawsFirstValuesByName) {
  ParameterSet parameters({.seed = 3}), alone({.seed = 3}), zeros({.seed = 3, .draw = false});
  AddSome(parameters);
  AddSome(zeros);
  const Parameter& last = alone.Add("c", {1}, {.mean = 1, .deviation = 0.25}, true);
  alone.Allocate();
  const auto& all = parameters.all();
  for (int64_t i = 0; i < 15; ++i) {
    const double normal = RandomStream(3, "weights/a").Normal(static_cast<uint64_t>(i));
    EXPECT_EQ(all[0]->value.Data<float>()[i], static_cast<float>(0.5 * normal));
  }
  EXPECT_EQ(all[1]->value.Data<float>()[15], 2);
  EXPECT_EQ(*all[2]->value.Data<float>(), *last.value.Data<float>());
  // Between parameters, and without a draw, all values are 0.
  EXPECT_EQ(parameters.values().Data<float>()[15], 0);
  for (int64_t i = 0; i < zeros.values().size(0); ++i)
    EXPECT_EQ(zeros.values().Data<float>()[i], 0);
}

TEST(ParameterSet, PassesReadTheValuesOrACopyInTheirType) {
  const Context context({.threads = 2});
  ParameterSet same({.seed = 3}), rounded({.seed = 3, .pass_type = DataType::kBF16});
  AddSome(same);
  AddSome(rounded);
  EXPECT_EQ(same.pass_type(), DataType::kF32);
  for (const auto& parameter : same.all())
    EXPECT_EQ(parameter->read.data(), parameter->value.data());
  const auto expect_copy = [&](bool fresh) {
    for (const auto& parameter : rounded.all()) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(parameter->read.data()) % 64, 0u);
      ASSERT_EQ(parameter->read.type(), DataType::kBF16);
      Tensor want(parameter->shape, DataType::kBF16), have(parameter->shape), back(want.shape());
      Copy(parameter->value, want);
      Copy(want, back);
      Copy(parameter->read, have);
      for (int64_t i = 0; i < have.shape().Elements(); ++i)
        EXPECT_EQ(have.Data<float>()[i] == back.Data<float>()[i], fresh) << parameter->name;
    }
  };
  expect_copy(true);
  for (const auto& parameter : rounded.all()) {
    for (int64_t i = 0; i < parameter->shape.Elements(); ++i)
      parameter->value.Data<float>()[i] += 1;
  }
  expect_copy(false);
  rounded.Refresh(context);
  expect_copy(true);
}

TEST(ParameterSet, GradientsAreZeroedTogether) {
  const Context context({.threads = 2});
  ParameterSet parameters({.seed = 3});
  AddSome(parameters);
  EXPECT_TRUE(parameters.all()[0]->grad.empty());
  EXPECT_TRUE(parameters.gradients().empty());
  parameters.ZeroGradients(context);
  for (const auto& parameter : parameters.all()) parameter->grad.Data<float>()[0] = 5;
  const void* before = parameters.gradients().data();
  parameters.ZeroGradients(context);
  EXPECT_EQ(parameters.gradients().data(), before);
  for (int64_t i = 0; i < parameters.gradients().size(0); ++i)
    EXPECT_EQ(parameters.gradients().Data<float>()[i], 0);
}

// A step begins without writing to gradients that layers store; the first is stored, the next are
// added, and what nobody stored is 0 in the end.
TEST(ParameterSet, GradientsThatLayersStoreAreNotZeroedFirst) {
  const Context context({.threads = 2});
  ParameterSet parameters({.seed = 3});
  AddSome(parameters);
  Parameter &stored = *parameters.all()[0], &added = *parameters.all()[1],
            &unused = *parameters.all()[2];
  stored.is_stored = unused.is_stored = true;
  parameters.BeginGradients(context);
  EXPECT_TRUE(stored.Adds());  // new memory is 0
  for (int step = 0; step < 2; ++step) {
    for (const auto& parameter : parameters.all()) parameter->grad.Data<float>()[0] = 5;
    parameters.BeginGradients(context);
    EXPECT_EQ(stored.grad.Data<float>()[0], 5);
    EXPECT_EQ(added.grad.Data<float>()[0], 0);
    EXPECT_TRUE(added.Adds());
    EXPECT_FALSE(stored.Adds());
    EXPECT_TRUE(stored.Adds());
    parameters.SettleGradients(context);
    EXPECT_EQ(stored.grad.Data<float>()[0], 5);
    EXPECT_EQ(unused.grad.Data<float>()[0], 0);
    EXPECT_TRUE(unused.Adds());
  }
  parameters.BeginGradients(context);
  parameters.ZeroGradients(context);
  EXPECT_TRUE(stored.Adds());
}

TEST(ParameterSet, IsCompleteOnceItHasMemory) {
  ParameterSet parameters({.seed = 3}), shapes({.shapes_only = true});
  AddSome(parameters);
  EXPECT_THROW(parameters.Add("late", {2}, {}, false), Error);
  EXPECT_EQ(parameters.all().size(), 3u);
  AddSome(shapes);
  EXPECT_EQ(shapes.Count(), 32);
  EXPECT_TRUE(shapes.all()[0]->value.empty());
}

}  // namespace
}  // namespace favor
