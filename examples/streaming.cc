// A prefix of any length in a state of fixed size: append token by token, attend at any time, save,
// load, continue.
#include <favor/favor.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

int main() {
  const int64_t heads = 2, dim = 16;
  const favor::Context context;
  const auto plan = favor::FeaturePlan::Draw({.features = 64}, heads, dim, /*seed=*/1);
  favor::AttentionState state(plan, {.value_dim = dim});

  favor::Tensor token({heads, 1, dim});
  for (int step = 0; step < 1000; ++step) {
    for (int64_t i = 0; i < heads * dim; ++i)
      token.Data<float>()[i] =
          static_cast<float>(0.5 * std::sin(step + 0.1 * static_cast<double>(i)));
    state.Append(token, token, context);
  }
  const favor::Tensor answer =
      state.Attend(token, context);  // the last token attends to all of them
  std::printf("%lld tokens in %lld bytes; first answer %.4f\n",
              static_cast<long long>(state.tokens()), static_cast<long long>(state.Bytes()),
              static_cast<double>(answer.Data<float>()[0]));

  state.Save("streaming.favor");
  const favor::AttentionState loaded = favor::AttentionState::Load("streaming.favor");
  const favor::Tensor again = loaded.Attend(token, context);
  std::remove("streaming.favor");
  return std::fabs(again.Data<float>()[0] - answer.Data<float>()[0]) < 1e-6f ? 0 : 1;
}
