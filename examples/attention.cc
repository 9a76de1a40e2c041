// Attention in ten lines, over your own arrays: linear next to exact.
#include <favor/favor.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  const favor::Shape shape{/*heads=*/4, /*length=*/2048, /*dim=*/64};
  std::vector<float> q(static_cast<size_t>(shape.Elements())), k(q), v(q);
  for (size_t i = 0; i < q.size(); ++i) {
    const auto t = static_cast<double>(i);
    q[i] = static_cast<float>(0.3 * std::sin(0.7 * t));
    k[i] = static_cast<float>(0.3 * std::cos(1.3 * t));
    v[i] = static_cast<float>(std::sin(0.01 * t));
  }
  const favor::ConstView queries(q.data(), shape), keys(k.data(), shape), values(v.data(), shape);

  const favor::Context context;  // all cores
  const favor::Tensor linear = favor::Attend(queries, keys, values, {.causal = true}, context);
  const favor::Tensor exact =
      favor::Attend(queries, keys, values, {.attention = "exact", .causal = true}, context);

  double difference = 0, size = 0;
  for (int64_t i = 0; i < shape.Elements(); ++i) {
    difference += std::pow(linear.Data<float>()[i] - exact.Data<float>()[i], 2);
    size += std::pow(exact.Data<float>()[i], 2);
  }
  const double error = std::sqrt(difference / size);
  std::printf("causal attention over 2048 tokens: linear differs from exact by %.3f\n", error);
  return error < 0.2 ? 0 : 1;
}
