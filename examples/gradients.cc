// Gradients of attention: moves queries so that the output comes closer to a target.
#include <favor/favor.h>

#include <cstdio>

int main() {
  const int64_t length = 256, dim = 16;
  favor::Tensor q({length, dim}), k({length, dim}), v({length, dim}), target({length, dim});
  for (int64_t i = 0; i < length * dim; ++i) {
    q.Data<float>()[i] = 0.1f * static_cast<float>(i % 7) - 0.3f;
    k.Data<float>()[i] = 0.1f * static_cast<float>(i % 11) - 0.5f;
    v.Data<float>()[i] = 0.1f * static_cast<float>(i % 13) - 0.6f;
    target.Data<float>()[i] = v.Data<float>()[(i + 5 * dim) % (length * dim)];
  }
  const favor::Context context({.seed = 1});
  favor::AttentionOptions options{.causal = true};
  options.plan = favor::FeaturePlan::Draw({.features = 64}, /*heads=*/1, dim, context.seed());
  double first = 0, loss = 0;
  for (int step = 0; step <= 20; ++step) {
    favor::AttentionTrace trace;
    const favor::Tensor out = favor::Attend(q, k, v, options, context, {.trace = &trace});
    favor::Tensor grad_out({length, dim});  // gradient of the loss Σ (out − target)²/2
    loss = 0;
    for (int64_t i = 0; i < length * dim; ++i) {
      const float difference = out.Data<float>()[i] - target.Data<float>()[i];
      grad_out.Data<float>()[i] = difference;
      loss += 0.5 * difference * difference;
    }
    if (step == 0) first = loss;
    const favor::AttentionGradients gradients =
        favor::AttendBackward({q, k, v, out, grad_out}, options, context, &trace);
    for (int64_t i = 0; i < length * dim; ++i)
      q.Data<float>()[i] -= 30.0f * gradients.q.Data<float>()[i];
  }
  std::printf("loss %.3f before, %.3f after 20 steps\n", first, loss);
  return loss < first ? 0 : 1;
}
