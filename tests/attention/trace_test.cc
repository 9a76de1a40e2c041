// Traces that take over the memory of earlier ones, as a training step's do.
#include "attention/trace.h"

#include <gtest/gtest.h>

#include <cstring>

#include "attention/attend.h"
#include "attention/call.h"
#include "core/tally.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

struct Gradients {
  explicit Gradients(const Shape& shape) : q(shape), k(shape), v(shape) {}
  Tensor q, k, v;
};

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.view().data(), b.view().data(), static_cast<size_t>(a.Bytes())) == 0;
}

// Gradients of a call whose inputs are drawn from `seed`, with a trace made from `trace`.
Gradients GradientsOf(const Shape& shape, const AttentionOptions& options, uint64_t seed,
                      const Context& context, attention::Trace& trace) {
  const Tensor q = RandomTensor(shape, 0.7, seed), k = RandomTensor(shape, 0.7, seed + 1),
               v = RandomTensor(shape, 1, seed + 2), grad_out = RandomTensor(shape, 1, seed + 3);
  Tensor out(shape);
  Gradients gradients(shape);
  const attention::Call call = attention::CheckCall({q, k, v}, options, context);
  const Tally tally(context);
  trace = attention::Trace(call, std::move(trace));
  attention::Forward(call, {.out = out, .trace = &trace, .tally = tally.At()}, context);
  attention::Backward(call, trace,
                      {.out = out,
                       .grad_out = grad_out,
                       .grad_q = gradients.q,
                       .grad_k = gradients.k,
                       .grad_v = gradients.v},
                      tally.At(), context);
  EXPECT_EQ(tally.Read()[0].unusable, 0);
  return gradients;
}

TEST(Traces, InTheMemoryOfAnotherCallGiveTheSameGradients) {
  const Context context({.threads = 2});
  const Shape small{2, 2, 40, 8}, large{1, 2, 70, 8};
  attention::Trace used;
  const auto expect_same = [&](const Shape& shape, const AttentionOptions& options, uint64_t seed) {
    attention::Trace fresh;
    const Gradients want = GradientsOf(shape, options, seed, context, fresh),
                    have = GradientsOf(shape, options, seed, context, used);
    EXPECT_TRUE(SameBits(have.q, want.q) && SameBits(have.k, want.k) && SameBits(have.v, want.v))
        << options.attention << " " << shape.ToString() << " " << seed;
    EXPECT_EQ(used.Bytes(), fresh.Bytes());
  };
  AttentionOptions linear{.features = {.features = 16}}, wide = linear, causal = linear;
  wide.features.features = 24;
  causal.causal = true;
  for (const uint64_t seed : {10, 20}) {  // states of the same sizes are used again
    expect_same(small, linear, seed);
    expect_same(small, linear, seed + 5);
    expect_same(small, wide, seed);
    expect_same(large, wide, seed);
    expect_same(large, causal, seed);  // keeps no states
    expect_same(small, linear, seed);
    expect_same(small, {.attention = "exact"}, seed);
  }
}

}  // namespace
}  // namespace favor
