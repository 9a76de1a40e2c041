// Independent plain-loop twins of attention, and random arrays for them.
#ifndef FAVOR_TESTS_ATTENTION_ORACLE_H_
#define FAVOR_TESTS_ATTENTION_ORACLE_H_

#include <cmath>
#include <string>
#include <vector>

#include "favor/favor.h"

namespace favor {

inline Tensor RandomTensor(const Shape& shape, double deviation, uint64_t seed) {
  Tensor tensor(shape);
  std::vector<double> values(static_cast<size_t>(shape.Elements()));
  RandomStream(seed, "attention test").FillNormal(0, values);
  for (size_t i = 0; i < values.size(); ++i)
    tensor.Data<float>()[i] = static_cast<float>(deviation * values[i]);
  return tensor;
}

// Norms that grow, shrink or jump along the sequence by a factor of 1000. x [.., length, dim].
inline Tensor Profiled(const Tensor& base, const std::string& profile) {
  Tensor x = base.Clone();
  const int rank = x.shape().rank();
  const int64_t length = x.shape()[rank - 2], d = x.shape()[rank - 1];
  for (int64_t row = 0; row < x.shape().Elements() / d; ++row) {
    const int64_t i = row % length;
    const double t = static_cast<double>(i) / static_cast<double>(length - 1);
    const double factor = profile == "grow"     ? std::pow(1000, t - 1)
                          : profile == "shrink" ? std::pow(1000, -t)
                          : profile == "jump"   ? (i / 37 % 2 ? 1e-3 : 1.0)
                                                : 1;
    for (int64_t c = 0; c < d; ++c) x.Data<float>()[row * d + c] *= static_cast<float>(factor);
  }
  return x;
}

inline double LargestDifference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.To(DataType::kF64), y = b.To(DataType::kF64);
  double largest = 0;
  for (int64_t i = 0; i < x.shape().Elements(); ++i) {
    const double difference = std::fabs(x.Data<double>()[i] - y.Data<double>()[i]);
    if (!(difference <= largest)) largest = difference;  // NaN counts
  }
  return largest;
}

// FAVOR+ of one head with the positive map in long double, without any stabilisation: exponents up
// to ±11,000 fit. q, k [L, d], v [L, dv], ω [m, d].
inline Tensor LongDoubleFavor(const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& omega, bool causal) {
  const int64_t lq = q.shape()[0], lk = k.shape()[0], d = q.shape()[1], dv = v.shape()[1],
                m = omega.shape().Elements() / d;
  const long double scale = 1 / std::sqrt(std::sqrt(static_cast<long double>(d)));
  const auto phi = [&](const Tensor& x, int64_t row) {
    std::vector<long double> features(static_cast<size_t>(m));
    for (int64_t r = 0; r < m; ++r) {
      long double u = 0, square = 0;
      for (int64_t i = 0; i < d; ++i) {
        const long double value = scale * x.Data<float>()[row * d + i];
        u += value * omega.Data<float>()[r * d + i];
        square += value * value;
      }
      features[static_cast<size_t>(r)] = std::exp(u - square / 2);
    }
    return features;
  };
  std::vector<long double> s(static_cast<size_t>(m * dv), 0), z(static_cast<size_t>(m), 0);
  Tensor out({lq, dv}, DataType::kF64);
  const auto add = [&](int64_t j) {
    const auto features = phi(k, j);
    for (size_t r = 0; r < features.size(); ++r) {
      z[r] += features[r];
      for (int64_t c = 0; c < dv; ++c)
        s[r * static_cast<size_t>(dv) + static_cast<size_t>(c)] +=
            features[r] * v.Data<float>()[j * dv + c];
    }
  };
  const auto read = [&](int64_t i) {
    const auto features = phi(q, i);
    long double denominator = 0;
    for (size_t r = 0; r < features.size(); ++r) denominator += features[r] * z[r];
    for (int64_t c = 0; c < dv; ++c) {
      long double numerator = 0;
      for (size_t r = 0; r < features.size(); ++r)
        numerator += features[r] * s[r * static_cast<size_t>(dv) + static_cast<size_t>(c)];
      out.Data<double>()[i * dv + c] = static_cast<double>(numerator / denominator);
    }
  };
  if (!causal) {
    for (int64_t j = 0; j < lk; ++j) add(j);
  }
  for (int64_t i = 0; i < lq; ++i) {
    if (causal) add(i);
    read(i);
  }
  return out;
}

}  // namespace favor

#endif  // FAVOR_TESTS_ATTENTION_ORACLE_H_
