// Compares calls of many heads with one call per query head, whose arrays have rank 2: those calls
// do not use the arithmetic that finds the rows of a head.
#ifndef FAVOR_TESTS_ATTENTION_HEAD_BY_HEAD_H_
#define FAVOR_TESTS_ATTENTION_HEAD_BY_HEAD_H_

#include <gtest/gtest.h>

#include <string>

#include "favor/favor.h"
#include "tests/attention/oracle.h"

namespace favor {

// The arrays of a call with gradients.
struct HeadArrays {
  Tensor q, k, v;   // [batch, heads, length, dim], [batch, kv_heads, length, dim or value_dim]
  Tensor grad_out;  // [batch, heads, length, value_dim]
  Tensor mask;      // [batch, kv_heads, length], or empty
};

struct HeadsShape {
  int64_t batch, heads, kv_heads, length, dim, value_dim;
};

inline HeadArrays RandomArrays(const HeadsShape& s, double deviation) {
  return {RandomTensor({s.batch, s.heads, s.length, s.dim}, deviation, 1),
          RandomTensor({s.batch, s.kv_heads, s.length, s.dim}, deviation, 2),
          RandomTensor({s.batch, s.kv_heads, s.length, s.value_dim}, 1, 3),
          RandomTensor({s.batch, s.heads, s.length, s.value_dim}, 1, 4),
          {}};
}

// The results of a call with gradients.
struct HeadResults {
  Tensor out;
  AttentionGradients gradients;
};

// `traced`: gradients use the trace of the forward call; otherwise they compute it again.
inline HeadResults AllHeads(const HeadArrays& a, AttentionOptions options, const Context& context,
                            bool traced = true) {
  if (!a.mask.empty()) options.key_mask = a.mask;
  AttentionTrace trace;
  Tensor out = Attend(a.q, a.k, a.v, options, context, {.trace = traced ? &trace : nullptr});
  AttentionGradients gradients =
      AttendBackward({a.q, a.k, a.v, out, a.grad_out}, options, context, traced ? &trace : nullptr);
  return {std::move(out), std::move(gradients)};
}

// A call of one query head. Options of linear attention must have a plan: its ω for this head is
// used.
inline HeadResults OneHead(const HeadArrays& a, AttentionOptions options, const Context& context,
                           int64_t batch, int64_t head) {
  const int64_t shared = head / (a.q.shape()[1] / a.k.shape()[1]);
  if (options.plan) {
    const Tensor omega = options.plan->Omega();
    options.plan =
        FeaturePlan::WithOmega(options.plan->options(), 1, omega.view().AsRank4().At(0).At(head));
  }
  if (!a.mask.empty()) options.key_mask = a.mask.view().At(batch).At(shared);
  const ConstView q = a.q.view().At(batch).At(head), k = a.k.view().At(batch).At(shared),
                  v = a.v.view().At(batch).At(shared),
                  grad_out = a.grad_out.view().At(batch).At(head);
  Tensor out = Attend(q, k, v, options, context);
  AttentionGradients gradients = AttendBackward({q, k, v, out, grad_out}, options, context);
  return {std::move(out), std::move(gradients)};
}

// to += x, in double.
inline void AddTo(Tensor& to, const Tensor& x) {
  const Tensor wide = x.To(DataType::kF64);
  for (int64_t i = 0; i < to.shape().Elements(); ++i)
    to.Data<double>()[i] += wide.Data<double>()[i];
}

// Compares all heads of one batch entry with calls of one head. Both sides run the same arithmetic
// on the same rows; only the gradients of shared keys and values are added in another order, a
// rounding (2⁻²⁴) for each of a few heads.
inline void ExpectHeadByHead(const HeadArrays& a, const HeadResults& got,
                             const AttentionOptions& options, const Context& context,
                             int64_t batch) {
  const int64_t heads = a.q.shape()[1], kv_heads = a.k.shape()[1];
  const auto near = [](const ConstView& x, const Tensor& want, const std::string& what) {
    Tensor copy(want.shape(), DataType::kF64);
    Copy(x, copy);
    EXPECT_LE(LargestDifference(copy, want), 1e-6 * LargestAbsolute(want)) << what;
  };
  for (int64_t shared = 0; shared < kv_heads; ++shared) {
    const auto name = [&](const char* what, int64_t head) {
      return std::string(what) + " of entry " + std::to_string(batch) + ", head " +
             std::to_string(head);
    };
    Tensor grad_k({a.k.shape()[2], a.k.shape()[3]}, DataType::kF64),
        grad_v({a.v.shape()[2], a.v.shape()[3]}, DataType::kF64);
    for (int64_t head = shared * heads / kv_heads; head < (shared + 1) * heads / kv_heads; ++head) {
      const HeadResults want = OneHead(a, options, context, batch, head);
      near(got.out.view().At(batch).At(head), want.out, name("output", head));
      near(got.gradients.q.view().At(batch).At(head), want.gradients.q, name("grad_q", head));
      AddTo(grad_k, want.gradients.k);
      AddTo(grad_v, want.gradients.v);
    }
    near(got.gradients.k.view().At(batch).At(shared), grad_k, name("grad_k", shared));
    near(got.gradients.v.view().At(batch).At(shared), grad_v, name("grad_v", shared));
  }
}

}  // namespace favor

#endif  // FAVOR_TESTS_ATTENTION_HEAD_BY_HEAD_H_
