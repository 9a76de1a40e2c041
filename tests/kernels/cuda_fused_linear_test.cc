// The fused kernels of linear attention on a GPU. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include "tests/kernels/cuda_linear.h"

namespace favor::linear_on_gpu {
namespace {

// A call that the fused kernels take, of tiles of 64 rows, columns and features.
Case FusedCase(const std::string& map, bool causal) {
  return {.map = map,
          .query_length = 300,
          .key_length = 300,
          .dim = 64,
          .value_dim = 64,
          .features = 256,
          .causal = causal,
          .type = DataType::kBF16,
          .fused = true};
}

TEST_F(CudaLinear, FusedKernelsEqualTheReference) {
  for (const char* map : {"positive", "relu", "oprf"}) {
    for (const bool causal : {false, true}) {
      const Case c = FusedCase(map, causal);
      for (const int64_t features : {1, 64, 65, 128, 150, 192, 193, 256}) {
        Case other = c;
        other.features = features;
        other.masked = features == 65;
        Expect(other);
      }
      for (const int64_t length : {1, 63, 64, 65, 129, 2000}) {
        Case other = c;
        other.batch = length == 129 || length == 2000 ? 40 : 1;  // few segments for each head
        other.query_length = other.key_length = length;
        other.features = 64;
        Expect(other);
      }
      for (const int64_t dim : {8, 40, 72, 128}) {
        Case other = c;
        other.dim = dim;
        other.value_dim = dim == 40 ? 128 : dim == 128 ? 16 : dim;
        other.features = dim == 72 ? 60 : 128;
        other.masked = dim == 40;
        Expect(other);
      }
      Case shared = c;
      shared.heads = 4;
      Expect(shared);
    }
  }
  Case cross = FusedCase("positive", false);
  cross.query_length = 70;
  Expect(cross);
  cross.key_length = 3;
  Expect(cross);
}

// Every number of blocks of 64 features, in segments of one chunk and of several: the warpgroups of
// a causal kernel work on different chunks, and what they share is used in turns.
TEST_F(CudaLinear, FusedKernelsTakeChunksInTurns) {
  for (const char* map : {"positive", "relu"}) {
    for (const int64_t features : {60, 128, 180, 256}) {
      for (const double decay : {0.0, 0.1}) {
        Case c = FusedCase(map, true);
        c.features = features;
        c.decay = decay;
        for (const int64_t batch : {1, 30}) {  // segments of one chunk, and of five
          c.batch = batch;
          c.query_length = c.key_length = 590;
          c.masked = batch == 30;
          Expect(c);
        }
        Case wide = c;
        wide.batch = 30;
        wide.dim = wide.value_dim = 128;
        wide.features = features / 2;
        Expect(wide);
      }
    }
  }
}

TEST_F(CudaLinear, FusedKernelsAreExactAtAnyNorm) {
  for (const bool causal : {false, true}) {
    for (const int64_t batch : {1, 70}) {  // segments of one chunk, or of many
      for (const double deviation : {0.1, 2.0, 4.0, 8.0}) {
        Case c = FusedCase("positive", causal);
        c.batch = batch;
        c.deviation = deviation;
        c.query_length = c.key_length = 500;
        Expect(c);
      }
    }
  }
}

void ExpectSameBits(const Results& one, const Results& other) {
  for (const auto part : {&Results::out, &Results::log_sum, &Results::grad_q, &Results::grad_k,
                          &Results::grad_v, &Results::grad_log_decay}) {
    const Tensor &a = one.*part, &b = other.*part;
    ASSERT_EQ(a.Bytes(), b.Bytes());
    if (a.empty()) continue;
    EXPECT_EQ(std::memcmp(a.Data<double>(), b.Data<double>(), static_cast<size_t>(a.Bytes())), 0);
  }
}

TEST_F(CudaLinear, FusedKernelsGiveTheSameBitsFromRunToRun) {
  for (const bool causal : {false, true}) {
    Case c = FusedCase("positive", causal);
    c.heads = c.kv_heads = 40;
    c.query_length = c.key_length = 1000;
    const Arrays arrays(c);
    ExpectSameBits(OnGpu(c, arrays), OnGpu(c, arrays));
  }
}

// States that the forward call leaves are those that gradients find for themselves.
TEST_F(CudaLinear, GradientsOfKeptStatesHaveTheSameBits) {
  for (const char* map : {"positive", "relu"}) {
    for (const double decay : {0.0, 0.1}) {
      for (const int64_t batch : {1, 20, 70}) {  // five segments, three, and one: nothing is kept
        for (const int64_t heads : {2, 4}) {     // heads that share keys keep nothing
          Case c = FusedCase(map, true);
          c.batch = batch;
          c.heads = heads;
          c.decay = decay;
          c.masked = batch == 20;
          c.deviation = batch == 20 ? 8 : 1;  // some segments are handed over
          const Arrays arrays(c);
          const Results want = OnGpu(c, arrays);
          c.keeps = true;
          SCOPED_TRACE(c.Name());
          Call call(c, arrays, c.Plan(), *context_);
          for (int time = 0; time < 2; ++time) ExpectSameBits(call.Run(), want);
          const int64_t planned =
              heads > 2 ? 0
                        : kernels::KeptStates::Bytes(batch * heads, c.key_length, c.features,
                                                     c.value_dim, decay > 0);
          EXPECT_EQ(call.kept().memory.Bytes(), planned);
          EXPECT_EQ(planned > 0, heads == 2 && batch < 70);
          if (planned == 0 || c.deviation > 1) continue;
          c.loses = true;  // gradients that do not read them would be the same
          EXPECT_GT(RelativeError(OnGpu(c, arrays).grad_q, want.grad_q), 1e-3);
        }
      }
    }
  }
}

// Segments that the fused kernels must leave to the general ones.
TEST_F(CudaLinear, FusedKernelsHandOverWhatTheyLose) {
  Case c = FusedCase("positive", true);
  c.heads = c.kv_heads = 1;
  c.deviation = 8;
  c.settled = true;
  for (const int64_t place : {40, 63, 64, 201, 299}) {
    Arrays arrays(c);
    Tensor k = arrays.k.To(DataType::kF32);
    std::fill_n(k.Data<float>() + place * c.dim, c.dim, 0.0f);
    arrays.k = k.To(c.type);
    Expect(c, arrays, 1e-2);
  }
  // The first keys of a sequence do not exist: its first rows have none.
  Case masked = FusedCase("positive", true);
  masked.masked = true;
  Arrays arrays(masked);
  std::fill_n(arrays.mask.Data<float>(), 100, 0.0f);
  Expect(masked, arrays, 1e-2);
  for (const bool causal : {false, true}) {
    const Case plain = FusedCase("relu", causal);
    Arrays with_nan(plain);
    Tensor v = with_nan.v.To(DataType::kF32);
    v.Data<float>()[100 * plain.value_dim] = NAN;
    with_nan.v = v.To(plain.type);
    EXPECT_GT(OnGpu(plain, with_nan).tally.unusable, 0);
  }
}

// Memory that a call takes from its context has held anything.
TEST_F(CudaLinear, FusedKernelsIgnoreWhatTheirMemoryHeld) {
  constexpr int64_t kCount = 1 << 22;
  const auto fill = [&](float value) {
    Tensor filled({kCount});
    std::fill_n(filled.Data<float>(), kCount, value);
    filled = filled.To(kGpu);
    const DeviceScratch<float> memory(*context_, kCount);
    QueueCopy(memory.data(), filled.view().data(), kCount * 4, *context_);
    context_->Wait();
  };
  for (const bool causal : {false, true}) {
    for (const double decay : {0.0, 0.1}) {
      if (!causal && decay > 0) continue;
      Case c = FusedCase("positive", causal);
      c.decay = decay;
      for (const float value : {NAN, 5.0f, -5.0f}) {
        for (const int64_t batch : {1, 70}) {  // several segments, and one
          c.batch = batch;
          fill(value);
          Expect(c);
        }
      }
    }
  }
}

TEST_F(CudaLinear, FusedKernelsForget) {
  for (const char* map : {"positive", "relu"}) {
    for (const double decay : {0.001, 0.1, 2.0, 60.0}) {
      Case c = FusedCase(map, true);
      c.decay = decay;
      c.masked = decay == 0.1;
      c.settled = decay == 60.0;
      Expect(c);
      Case shared = c;
      shared.heads = 4;
      Expect(shared);
      for (const int64_t length : {1, 64, 65, 2000}) {
        Case other = c;
        other.batch = length == 2000 ? 20 : 1;  // several chunks in a segment
        other.query_length = other.key_length = length;
        other.features = 65;
        Expect(other);
      }
      Case wide = c;
      wide.dim = 128;
      wide.value_dim = 72;
      wide.features = 100;
      Expect(wide);
    }
    // Long keys, then short ones, and the other way: maxima that decay leaves behind.
    for (const double decay : {0.05, 0.5}) {
      Case c = FusedCase(map, true);
      c.batch = 20;
      c.query_length = c.key_length = 1000;
      c.deviation = 2;
      c.decay = decay;
      Arrays growing(c), shrinking(c);
      for (Arrays* arrays : {&growing, &shrinking}) {
        Tensor k = arrays->k.To(DataType::kF32);
        for (int64_t i = 0; i < k.shape().Elements(); ++i) {
          const float part = static_cast<float>(i / c.dim % c.key_length) / 1000;
          k.Data<float>()[i] *= arrays == &growing ? part : 1 - part;
        }
        arrays->k = k.To(c.type);
        Expect(c, *arrays, 1e-2);
      }
    }
    // Packed sequences: ℓ = −1e6 at a few places.
    for (const double deviation : {1.0, 8.0}) {
      Case c = FusedCase(map, true);
      c.deviation = deviation;
      c.decay = 0.1;
      Arrays arrays(c);
      for (const int64_t row : {0, 1, 63, 64, 100, 130, 299})
        arrays.log_decay.Data<double>()[row] = -1e6;
      Expect(c, arrays, 1e-2);
    }
  }
}

}  // namespace
}  // namespace favor::linear_on_gpu
