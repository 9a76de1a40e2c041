// A layer on a GPU: parameters in the slab of its device, activations in the arena of its device,
// kernels on the stream of its context. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/device.h"
#include "favor/random.h"
#include "layers/arena.h"
#include "layers/layer_norm.h"

namespace favor {
namespace {

constexpr int64_t kRows = 700, kWidth = 130;

std::vector<float> Normals(const char* name, int64_t count) {
  std::vector<double> drawn(static_cast<size_t>(count));
  RandomStream(1, name).FillNormal(0, drawn);
  return {drawn.begin(), drawn.end()};
}

struct Results {
  std::vector<float> y, grad_x, gradients;
};

// Forward and backward of a norm whose gain and bias are random, on one device.
Results RunLayer(const Device& device) {
  const Context context({.device = device});
  layers::ParameterSet parameters({.seed = 1, .device = device});
  layers::LayerNorm layer(parameters, "norm", kWidth, {.epsilon = 1e-5});
  parameters.Allocate();
  parameters.ZeroGradients(context);
  const auto send = [&](const std::vector<float>& values, const View& to) {
    context.Wait();
    CopyBytes(to.data(), device, values.data(), Device{},
              static_cast<int64_t>(values.size() * sizeof(float)));
  };
  const auto read = [&](const ConstView& from) {
    std::vector<float> values(static_cast<size_t>(from.shape().Elements()));
    context.Wait();
    CopyBytes(values.data(), Device{}, from.data(), device,
              static_cast<int64_t>(values.size() * sizeof(float)));
    return values;
  };
  for (const auto& parameter : parameters.all())
    send(Normals(parameter->name.c_str(), kWidth), parameter->value);

  layers::Arena arena(DataType::kF32, device);
  View x, statistics, y, grad_y, grad_x;
  const auto plan = [&] {
    x = arena.Take({kRows, kWidth});
    statistics = arena.Take({kRows, 2});
    y = arena.Take({kRows, kWidth});
    grad_y = arena.Take({kRows, kWidth});
    grad_x = arena.Take({kRows, kWidth});
  };
  plan();
  arena.Provide();
  plan();
  send(Normals("x", kRows * kWidth), x);
  send(Normals("grad_y", kRows * kWidth), grad_y);
  layer.Forward(context, x, statistics, y);
  layer.Backward(context, x, statistics, grad_y, grad_x, /*add=*/false);
  return {read(y), read(grad_x), read(parameters.gradients())};
}

TEST(CudaLayer, NormGivesWhatItGivesOnTheCpu) {
  if (ListGpus().empty()) GTEST_SKIP() << "there is no GPU";
  const Results want = RunLayer({}), have = RunLayer({.type = DeviceType::kCuda});
  const auto expect = [](const char* name, const std::vector<float>& a, const std::vector<float>& b,
                         double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(b[i]))) << name << " " << i;
  };
  expect("y", have.y, want.y, 2e-6);
  expect("grad_x", have.grad_x, want.grad_x, 1e-5);
  expect("gradients", have.gradients, want.gradients, 3e-5);  // sums over 700 rows
}

}  // namespace
}  // namespace favor
