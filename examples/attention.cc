// Attention in ten lines: linear beside exact.
#include <favor/favor.h>

#include <cmath>
#include <cstdio>

int main() {
  const int64_t heads = 4, length = 2048, dim = 64;
  favor::Tensor q({heads, length, dim}), k({heads, length, dim}), v({heads, length, dim});
  for (int64_t i = 0; i < q.shape().Elements(); ++i) {
    const auto t = static_cast<double>(i);
    q.Data<float>()[i] = static_cast<float>(0.3 * std::sin(0.7 * t));
    k.Data<float>()[i] = static_cast<float>(0.3 * std::cos(1.3 * t));
    v.Data<float>()[i] = static_cast<float>(std::sin(0.01 * t));
  }
  const favor::Context context;
  const favor::Tensor linear =
      favor::Attend(q, k, v, {.causal = true, .features = {.features = 256}}, context);
  const favor::Tensor exact =
      favor::Attend(q, k, v, {.attention = "exact", .causal = true}, context);

  double difference = 0, size = 0;
  for (int64_t i = 0; i < exact.shape().Elements(); ++i) {
    difference += std::pow(linear.Data<float>()[i] - exact.Data<float>()[i], 2);
    size += std::pow(exact.Data<float>()[i], 2);
  }
  const double error = std::sqrt(difference / size);
  std::printf("causal attention over %lld tokens: linear differs from exact by %.3f\n",
              static_cast<long long>(length), error);
  return error < 0.2 ? 0 : 1;
}
