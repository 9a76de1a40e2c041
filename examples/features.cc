// Random features estimate the softmax kernel: the more of them, the better.
#include <favor/favor.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  const std::vector<double> x = {0.3, -0.2, 0.5, 0.1}, y = {0.4, 0.1, 0.2, -0.3};
  favor::Tensor rows({2, 4}, favor::DataType::kF64);
  for (size_t i = 0; i < 4; ++i) rows.Data<double>()[i] = x[i], rows.Data<double>()[4 + i] = y[i];

  const favor::Context context;
  for (const int64_t m : {16, 256, 4096}) {
    const auto plan = favor::FeaturePlan::Draw({.map = "positive", .features = m}, /*heads=*/1,
                                               /*dim=*/4, /*seed=*/1);
    const favor::Tensor phi = favor::Features(plan, rows, context);  // [2, m]
    double estimate = 0;
    for (int64_t r = 0; r < m; ++r) estimate += phi.Data<double>()[r] * phi.Data<double>()[m + r];
    std::printf("m = %4lld   φ(x)·φ(y) = %.4f   exp(x·y) = %.4f   expected error %.4f\n",
                static_cast<long long>(m), estimate, *plan.Kernel(x, y),
                std::sqrt(*plan.ExpectedMse(x, y)));
  }
  return 0;
}
