// Calls from several threads at a time.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "favor/state.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

TEST(Threads, ShareAContext) {
  const Context context({.threads = 2});
  const Tensor q = RandomTensor({2, 300, 8}, 1, 1), k = RandomTensor({2, 300, 8}, 1, 2),
               v = RandomTensor({2, 300, 8}, 1, 3);
  AttentionOptions linear{.causal = true};
  linear.plan = FeaturePlan::Draw({.features = 16}, 2, 8, 1);
  AttentionState state(*linear.plan, {.value_dim = 8});
  state.Append(k, v, context);
  const auto everything = [&] {
    std::vector<Tensor> results;
    for (const AttentionOptions& options : {linear, AttentionOptions{.attention = "exact"}}) {
      AttentionTrace trace;
      Tensor out = Attend(q, k, v, options, context, {.trace = &trace});
      AttentionGradients gradients = AttendBackward({q, k, v, out, v}, options, context, &trace);
      for (Tensor* result : {&out, &gradients.q, &gradients.k, &gradients.v})
        results.push_back(std::move(*result));
    }
    results.push_back(state.Attend(q, context));
    return results;
  };
  const std::vector<Tensor> want = everything();
  std::vector<std::vector<Tensor>> got(4);
  std::vector<std::thread> threads;
  for (std::vector<Tensor>& results : got)
    threads.emplace_back([&] {
      for (int again = 0; again < 5; ++again) results = everything();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<Tensor>& results : got) {
    ASSERT_EQ(results.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(LargestDifference(results[i], want[i]), 0);
  }
}

}  // namespace
}  // namespace favor
