// Forgetting in the fast kernels, against the reference: chunks, blocks, tails, decays from none to
// total, and a million tokens.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/attention/gradient_case.h"

namespace favor {
namespace {

// ℓ of a row.
struct Decay {
  const char* name;
  double (*of)(int64_t row);
};

double Noise(int64_t row) {  // log σ of a number in −4 … 4 that looks random
  const double x = 8 * (std::fmod(static_cast<double>(row) * 0.6180339887498949, 1.0) - 0.5);
  return -std::log1p(std::exp(-x));
}

const std::vector<Decay>& Decays() {
  static const std::vector<Decay> decays = {
      {"none", [](int64_t) { return 0.0; }},
      {"-0.06", [](int64_t) { return -0.06; }},
      {"-2", [](int64_t) { return -2.0; }},
      {"-50", [](int64_t) { return -50.0; }},
      {"noise", Noise},
      {"-100 at every 50th", [](int64_t row) { return row % 50 == 7 ? -100.0 : -0.01; }},
      {"-1e4 at every 17th", [](int64_t row) { return row % 17 == 0 ? -1e4 : -0.3; }},
      {"-1e6 at every 70th", [](int64_t row) { return row % 70 == 60 ? -1e6 : 0.0; }},
      {"from 0 to -90", [](int64_t row) { return row % 91 == 0 ? 0.0 : 1.0 - double(row % 91); }},
  };
  return decays;
}

void SetDecays(Call& call, const Decay& decay) {
  const int64_t length = call.log_decay.shape()[2];
  for (int64_t i = 0; i < call.log_decay.shape().Elements(); ++i)
    call.log_decay.Data<double>()[i] = decay.of(i % length + 3 * (i / length));
}

// All decays within 1e-5 of the largest. Where rows see one key only, gradients vanish by
// cancellation: they are compared relative to those without forgetting, or to 0.05.
void ExpectLikeReference(Call& call, const std::string& where) {
  const Context context({.threads = 2});
  std::vector<double> largest(4, 0.05);
  for (const Decay& decay : Decays()) {
    SetDecays(call, decay);
    const Tensor out = call.Forward(context);
    const AttentionGradients got = call.Gradients(context);
    call.options.reference = true;
    const Tensor want_out = call.Forward(context);
    const AttentionGradients want = call.Gradients(context);
    call.options.reference = false;
    EXPECT_LE(LargestDifference(out, want_out), 1e-5 * Largest(want_out))
        << where << " " << decay.name;
    const auto check = [&](size_t index, const Tensor& a, const Tensor& b) {
      largest[index] = std::max(largest[index], Largest(b));  // "none" comes first
      EXPECT_LE(LargestDifference(a, b), 1e-5 * largest[index])
          << where << " " << decay.name << ", gradient " << index;
    };
    check(0, got.q, want.q);
    check(1, got.k, want.k);
    check(2, got.v, want.v);
    check(3, got.log_decay, want.log_decay);
  }
}

// Causal FAVOR+ with forgetting, row by row in double, without any stabilisation.
struct RowByRow {
  RowByRow(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& projection,
           const Tensor& log_decay, const Tensor& grad_out)
      : length(q.shape()[0]),
        d(q.shape()[1]),
        dv(v.shape()[1]),
        m(projection.shape().Elements() / d),
        omega(projection),
        out(static_cast<size_t>(length * dv)),
        grad_log_decay(static_cast<size_t>(length)) {
    const auto width = static_cast<size_t>(m * (dv + 1));  // sums, with the denominator's last
    std::vector<double> state(width, 0), adjoint(width, 0);
    std::vector<double> denominators(static_cast<size_t>(length)), flow(grad_log_decay.size());
    const double* l = log_decay.Data<double>();
    std::vector<double> row(static_cast<size_t>(dv + 1)), sum(row.size());
    for (int64_t t = 0; t < length; ++t) {
      const std::vector<double> key = Features(k, t), query = Features(q, t);
      const double kept = std::exp(static_cast<double>(l[t]));
      std::copy_n(v.Data<float>() + t * dv, dv, row.begin());
      row.back() = 1;
      std::fill(sum.begin(), sum.end(), 0);
      for (size_t r = 0; r < key.size(); ++r) {
        double* s = state.data() + r * row.size();
        for (size_t c = 0; c < row.size(); ++c) {
          s[c] = kept * s[c] + key[r] * row[c];
          sum[c] += query[r] * s[c];
        }
      }
      denominators[static_cast<size_t>(t)] = sum.back();
      for (int64_t c = 0; c < dv; ++c)
        out[static_cast<size_t>(t * dv + c)] = sum[static_cast<size_t>(c)] / sum.back();
    }
    std::vector<double> value(row.size());
    for (int64_t t = length - 1; t >= 0; --t) {
      const auto at = static_cast<size_t>(t);
      const std::vector<double> key = Features(k, t), query = Features(q, t);
      const double kept = t + 1 < length ? std::exp(static_cast<double>(l[t + 1])) : 0;
      std::copy_n(grad_out.Data<float>() + t * dv, dv, row.begin());
      std::copy_n(v.Data<float>() + t * dv, dv, value.begin());
      row.back() = 0;
      for (int64_t c = 0; c < dv; ++c)
        row.back() -= row[static_cast<size_t>(c)] * out[static_cast<size_t>(t * dv + c)];
      value.back() = 1;
      for (size_t r = 0; r < key.size(); ++r) {
        double *s = adjoint.data() + r * row.size(), dot = 0;
        const double weight = query[r] / denominators[at];
        for (size_t c = 0; c < row.size(); ++c) {
          s[c] = kept * s[c] + weight * row[c];
          dot += value[c] * s[c];
        }
        flow[at] += key[r] * dot;
      }
    }
    for (size_t t = 1; t < flow.size(); ++t)
      grad_log_decay[t] = grad_log_decay[t - 1] + flow[t - 1];
  }

  std::vector<double> Features(const Tensor& x, int64_t row) const {
    const double scale = 1 / std::sqrt(std::sqrt(static_cast<double>(d)));
    std::vector<double> features(static_cast<size_t>(m));
    for (int64_t r = 0; r < m; ++r) {
      double exponent = 0;
      for (int64_t i = 0; i < d; ++i) {
        const double z = scale * x.Data<float>()[row * d + i];
        exponent += (omega.Data<double>()[r * d + i] - z / 2) * z;
      }
      features[static_cast<size_t>(r)] = std::exp(exponent);
    }
    return features;
  }

  int64_t length, d, dv, m;
  const Tensor& omega;
  std::vector<double> out, grad_log_decay;
};

// The last 1,000 rows and all gradients of ℓ.
class ForgettingOverAMillionTokens : public testing::TestWithParam<Decay> {};

TEST_P(ForgettingOverAMillionTokens, LosesNothing) {
  constexpr int64_t kLength = 1000000, kDim = 16;
  const Tensor q = RandomTensor({kLength, kDim}, 1, 1), k = RandomTensor({kLength, kDim}, 1, 2),
               v = RandomTensor({kLength, kDim}, 1, 3),
               grad_out = RandomTensor({kLength, kDim}, 1, 4);
  const FeaturePlan plan = FeaturePlan::Draw({.features = 32}, 1, kDim, 5);
  const Tensor omega = plan.Omega().To(DataType::kF64);
  Tensor log_decay({kLength}, DataType::kF64);
  const Context context({.threads = 2});
  for (int64_t row = 0; row < kLength; ++row) log_decay.Data<double>()[row] = GetParam().of(row);
  const RowByRow want(q, k, v, omega, log_decay, grad_out);
  AttentionOptions options{.causal = true, .plan = plan};
  options.log_decay = log_decay;
  const Tensor out = Attend(q, k, v, options, context);
  const AttentionGradients gradients = AttendBackward({q, k, v, out, grad_out}, options, context);
  double largest = 0, error = 0;
  for (int64_t i = (kLength - 1000) * kDim; i < kLength * kDim; ++i) {
    const double value = want.out[static_cast<size_t>(i)];
    largest = std::max(largest, std::abs(value));
    error = std::max(error, std::abs(value - out.Data<float>()[i]));
  }
  EXPECT_LE(error, 1e-5 * largest);
  largest = error = 0;
  for (int64_t i = 0; i < kLength; ++i) {
    const double value = want.grad_log_decay[static_cast<size_t>(i)];
    largest = std::max(largest, std::abs(value));
    error = std::max(error, std::abs(value - gradients.log_decay.Data<float>()[i]));
  }
  EXPECT_LE(error, 1e-5 * largest);
}

INSTANTIATE_TEST_SUITE_P(
    Forgetting, ForgettingOverAMillionTokens,
    testing::Values(Decay{"mild", [](int64_t) { return -0.06; }}, Decay{"noise", Noise},
                    Decay{"jumps", [](int64_t row) { return row % 1000 == 500 ? -1e4 : -0.01; }}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ForgettingKernels, EqualTheReference) {
  for (const char* map : {"positive", "relu", "hyperbolic", "taylor1", "taylor", "poly-exact"}) {
    for (const bool masked : {false, true}) {
      for (const bool normalize : {true, false}) {
        for (const int64_t length :
             {int64_t{1}, int64_t{4}, int64_t{59}, int64_t{61}, int64_t{200}}) {
          const Case c{.map = map,
                       .causal = true,
                       .masked = masked,
                       .grouped = length != 61,
                       .normalize = normalize,
                       .forgets = true,
                       .length = length,
                       .features = 20,
                       .deviation = 0.5};
          Call call(c);
          ExpectLikeReference(call, c.Name() + " " + std::to_string(length));
        }
      }
    }
  }
}

// Keys of very different norms move the maxima of features while decays lower them.
TEST(ForgettingKernels, EqualTheReferenceForLongKeys) {
  const Case c{.causal = true, .forgets = true, .length = 150, .dim = 16, .features = 32};
  for (const double deviation : {3.0, 8.0}) {
    Call call(c);
    call.k = RandomTensor(call.k.shape(), deviation, 2);
    ExpectLikeReference(call, std::to_string(deviation));
  }
}

// Few heads: sequences are cut into blocks, whose states and adjoints merge in order.
TEST(ForgettingKernels, EqualTheReferenceOverBlocks) {
  for (const bool masked : {false, true}) {
    Call call({.causal = true, .masked = masked, .forgets = true, .length = 9000});
    ExpectLikeReference(call, masked ? "masked" : "");
  }
}

// Many heads: sequences stay whole unless they are long and the gradient of ℓ is a sum over them.
TEST(ForgettingKernels, EqualTheReferenceOverManyHeads) {
  for (const int64_t length : {int64_t{2000}, int64_t{17000}}) {
    Call call({.causal = true,
               .grouped = true,
               .forgets = true,
               .length = length,
               .dim = 4,
               .value_dim = 2,
               .features = 4});
    ExpectLikeReference(call, std::to_string(length));
  }
}

// A later key, value or ℓ must not change earlier rows.
TEST(ForgettingKernels, DoNotLeak) {
  for (const Decay& decay : Decays()) {
    Call call({.causal = true, .forgets = true, .length = 150});
    SetDecays(call, decay);
    const Context context({.threads = 1});
    const Tensor before = call.Forward(context);
    constexpr int64_t kChanged = 97;
    for (int64_t group = 0; group < 4; ++group) {
      call.log_decay.Data<double>()[group * 150 + kChanged] = -3.3;
      for (int64_t i = 0; i < 5; ++i)
        call.v.Data<float>()[(group * 150 + kChanged) * 5 + i] = 3.0f + static_cast<float>(i);
      for (int64_t i = 0; i < 6; ++i)
        call.k.Data<float>()[(group * 150 + kChanged) * 6 + i] = 7.0f - static_cast<float>(i);
    }
    const Tensor after = call.Forward(context);
    double earlier = 0, later = 0;
    for (int64_t i = 0; i < before.shape().Elements(); ++i) {
      const double difference = std::abs(before.Data<float>()[i] - after.Data<float>()[i]);
      (i / 5 % 150 < kChanged ? earlier : later) =
          std::max(i / 5 % 150 < kChanged ? earlier : later, difference);
    }
    EXPECT_LE(earlier, 1e-5) << decay.name;
    EXPECT_GT(later, 0.01) << decay.name;
  }
}

TEST(ForgettingKernels, GiveTheSameBitsOnEveryNumberOfThreads) {
  Call call({.causal = true, .grouped = true, .forgets = true, .length = 5000});
  SetDecays(call, Decays()[4]);
  const AttentionGradients want = call.Gradients(Context({.threads = 1}));
  for (const int threads : {2, 3, 8}) {
    const AttentionGradients got = call.Gradients(Context({.threads = threads}));
    ExpectNear(got, want, 0);
  }
}

}  // namespace
}  // namespace favor
