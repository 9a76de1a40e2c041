// A few rows that join and read states on a GPU, as in decoding, against the reference, token by
// token in double. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/kernels/cuda_linear.h"

namespace favor::linear_on_gpu {
namespace {

using kernels::PrefixStates;

// A causal call of `c.key_length` rows, continued piece by piece.
struct Decoded {
  // Pieces of these lengths, again and again.
  Decoded(const Case& c, const Arrays& arrays, const std::vector<int64_t>& pieces,
          const Context& context)
      : call(c, arrays, c.Plan(), context),
        states(c.batch * c.heads, call.Constants().width(), c.value_dim, context),
        out(call.Zeros({c.batch, c.heads, c.key_length, c.value_dim},
                       context.device() == kGpu ? c.type : DataType::kF64)) {
    int64_t begin = 0;
    for (size_t i = 0; begin < c.key_length; ++i) {
      const int64_t end = std::min(begin + pieces[i % pieces.size()], c.key_length);
      const AttentionProblem part = PartOf(call.problem(), begin, end);
      kernels::LinearAttention({.call = {.problem = part,
                                         .out = View(out).Range(2, begin, end - begin),
                                         .log_sum = {},
                                         .tally = call.tally().At(),
                                         .checks_inputs = context.device() == kGpu},
                                .heads = call.Heads(),
                                .states = states.views()},
                               context);
      begin = end;
    }
    context.Wait();
    tally = call.tally().Read()[0];
  }

  Call call;
  StateTensors states;
  Tensor out;
  TallyEntry tally;
};

// Sums within `bound` of the largest of their head: features near 0 are differences.
void ExpectSameStates(const StateTensors& got, const StateTensors& want, double bound) {
  const StateTensors there = got.To(Device{});
  const PrefixStates a = there.views(), b = want.views();
  for (int64_t group = 0; group < b.groups(); ++group) {
    const kernels::PrefixState x = a.At(group), y = b.At(group);
    ASSERT_EQ(*x.tokens, *y.tokens);
    ASSERT_NEAR(*x.log_decay, *y.log_decay, 1e-6 * (1 + std::fabs(*y.log_decay)));
    const int64_t sums = y.width * y.value_dim;
    double largest = 0;
    for (const double z : y.z) largest = std::max(largest, std::fabs(z));
    for (int64_t i = 0; i < sums; ++i) largest = std::max(largest, std::fabs(y.s[i]));
    for (int64_t r = 0; r < y.width; ++r) {
      const auto at = static_cast<size_t>(r);
      if (y.c[at] == -INFINITY) {
        ASSERT_EQ(x.c[at], -INFINITY);
        continue;
      }
      const double factor = std::exp(x.c[at] - y.c[at]);
      ASSERT_NEAR(factor * x.z[at], y.z[at], bound * largest) << r;
      for (int64_t i = r * y.value_dim; i < (r + 1) * y.value_dim; ++i)
        ASSERT_NEAR(factor * x.s[i], y.s[i], bound * largest) << i;
    }
  }
}

class CudaFew : public CudaLinear {
 protected:
  void ExpectDecoded(const Case& c, double bound = 1e-4) const {
    SCOPED_TRACE(c.Name());
    const Arrays arrays(c);
    const Decoded want(c, arrays, {c.key_length}, cpu_);
    for (const std::vector<int64_t>& pieces : {std::vector<int64_t>{1}, {1, 4, 2, 3}}) {
      const Decoded got(c, arrays, pieces, *context_);
      EXPECT_LE(RelativeError(InDouble(got.out), want.out),
                c.type == DataType::kF32 ? bound : 1e-2);
      ExpectSameStates(got.states, want.states, bound);
      EXPECT_EQ(got.tally.empty, want.tally.empty);
      EXPECT_EQ(got.tally.nonpositive, want.tally.nonpositive);
      EXPECT_EQ(got.tally.unusable, 0);
    }
  }
};

constexpr int64_t kTokens = 23;

Case Tokens(int64_t batch, int64_t heads, int64_t kv_heads) {
  return {.batch = batch,
          .heads = heads,
          .kv_heads = kv_heads,
          .query_length = kTokens,
          .key_length = kTokens,
          .causal = true};
}

TEST_F(CudaFew, EveryMapEqualsTheReference) {
  for (const FeatureMapInfo& map : Maps()) {
    if (map.name == "poly-sum" || map.name == "poly-sketch") continue;
    for (const int64_t features : {9, 150}) {
      Case c = Tokens(1, 3, 3);
      c.map = map.name;
      c.features = features;
      c.normalize = map.nonnegative || map.name.substr(0, 6) == "taylor";
      if (!map.has_omega) c.dim = features == 9 ? 3 : 16;
      c.deviation = map.kernel == KernelFamily::kGeneralized ? 1 : 0.5;
      ExpectDecoded(c);
      c.masked = true;
      c.decay = 0.2;
      ExpectDecoded(c);
    }
  }
}

TEST_F(CudaFew, EverySizeEqualsTheReference) {
  for (const int64_t features : {1, 7, 64, 100, 129, 256, 1024, 2048}) {
    for (const int64_t heads : {1, 8}) {
      Case c = Tokens(1, heads, heads);
      c.dim = c.value_dim = 64;
      c.features = features;
      ExpectDecoded(c);
    }
  }
  for (const int64_t dim : {1, 5, 24, 128, 256}) {
    for (const int64_t value_dim : {1, 3, 16, 130, 255, 256}) {
      Case c = Tokens(2, 2, 1);
      c.dim = dim;
      c.value_dim = value_dim;
      c.features = 200;
      c.deviation = 0.5;
      ExpectDecoded(c);
    }
  }
}

TEST_F(CudaFew, ManyContextsEqualTheReference) {
  for (const int64_t batch : {1, 2, 7, 16, 64}) {
    for (const DataType type : {DataType::kF32, DataType::kBF16, DataType::kF16}) {
      Case c = Tokens(batch, 8, 2);
      c.dim = c.value_dim = 64;
      c.features = 256;
      c.type = type;
      c.masked = batch == 7;
      c.decay = batch == 2 ? 0.1 : 0;
      ExpectDecoded(c);
    }
  }
}

TEST_F(CudaFew, EveryOptionEqualsTheReference) {
  for (const int64_t features : {32, 300}) {
    Case c = Tokens(2, 4, 2);
    c.features = features;
    c.masked = true;
    c.normalize = false;
    ExpectDecoded(c);
    c.centred = true;
    ExpectDecoded(c);
    c.normalize = true;
    c.decay = 3;
    ExpectDecoded(c);
    c.map = "oprf";
    c.own_a = true;
    ExpectDecoded(c);
    c = Tokens(2, 4, 2);
    c.features = features;
    c.deviation = 8;
    ExpectDecoded(c);
    c.map = "identity";
    c.deviation = 1;
    c.least_denominator = 30;
    ExpectDecoded(c);
  }
}

TEST_F(CudaFew, LongContinuationsStayExact) {
  Case c = Tokens(1, 8, 8);
  c.dim = c.value_dim = 64;
  c.features = 256;
  c.query_length = c.key_length = 700;
  ExpectDecoded(c);
  c.decay = 0.05;
  c.deviation = 2;
  ExpectDecoded(c);
}

TEST_F(CudaFew, GivesTheSameBitsFromRunToRun) {
  for (const int64_t batch : {1, 16}) {
    Case c = Tokens(batch, 8, 8);
    c.dim = c.value_dim = 64;
    c.features = 256;
    const Arrays arrays(c);
    const Decoded first(c, arrays, {1}, *context_);
    const Tensor out = InDouble(first.out);
    const StateTensors states = first.states.To(Device{});
    for (int run = 0; run < 3; ++run) {
      const Decoded again(c, arrays, {1}, *context_);
      const Tensor other = InDouble(again.out);
      const StateTensors others = again.states.To(Device{});
      EXPECT_EQ(
          std::memcmp(out.Data<double>(), other.Data<double>(), static_cast<size_t>(out.Bytes())),
          0);
      const auto elements = static_cast<size_t>(states.views().s.shape().Elements());
      EXPECT_EQ(std::memcmp(states.views().s.Data<double>(), others.views().s.Data<double>(),
                            elements * sizeof(double)),
                0);
    }
  }
}

// A number in one head keeps the states of all heads as they were, whether the launch checks the
// inputs itself (few rows) or another one does.
TEST_F(CudaFew, UnusableRowsChangeNoState) {
  for (const int64_t batch : {1, 16}) {
    for (const bool of_values : {false, true}) {
      Case c = Tokens(batch, 8, 4);
      c.query_length = c.key_length = 2;
      c.dim = c.value_dim = 64;
      c.masked = true;
      Arrays arrays(c);
      std::iota(arrays.mask.Data<float>(), arrays.mask.Data<float>() + 4 * batch * 2, 1.0f);
      const int64_t row = 3 * 2 + 1;  // the second key of the last shared head of the first context
      arrays.k.Data<float>()[2] = 1e3f;  // large, not too large
      if (of_values) {
        arrays.v.Data<float>()[row * 64 + 63] = 2e30f;
      } else {
        arrays.k.Data<float>()[row * 64 + 63] = NAN;
      }
      const Decoded got(c, arrays, {2}, *context_);
      EXPECT_EQ(got.tally.unusable, 1);
      const StateTensors states = got.states.To(Device{});
      for (int64_t group = 0; group < states.views().groups(); ++group) {
        EXPECT_EQ(*states.views().At(group).tokens, 0);
        EXPECT_EQ(states.views().At(group).c[5], -INFINITY);
      }
      arrays.mask.Data<float>()[row] = 0;  // it does not exist
      const Decoded without(c, arrays, {2}, *context_);
      EXPECT_EQ(without.tally.unusable, 0);
      EXPECT_EQ(*without.states.To(Device{}).views().At(7).tokens, 1);
    }
  }
}

}  // namespace
}  // namespace favor::linear_on_gpu
