// Softmax attention, as it is defined: O(L²) time. Decoding keeps all keys and values.
#include "attention/key_cache.h"
#include "attention/kind.h"
#include "kernels/exact_attention.h"

namespace favor::attention {
namespace {

class Exact : public Kind {
 public:
  std::string_view name() const override { return "exact"; }
  std::string_view summary() const override { return "softmax, O(L²)"; }
  bool RunsOnGpu() const override { return true; }

  void Forward(const Call& call, const ForwardTo& to, const Context& context) const override {
    kernels::ExactAttention(to.Arguments(call.problem), context);
  }
  void Backward(const Call& call, const BackwardTo& to, const Context& context) const override {
    kernels::ExactAttentionBackward(to.Gradients(call.problem), context);
  }

  double Flops(const CacheShape& shape, int64_t length, const AttentionOptions& options,
               bool backward) const override {
    const auto all = static_cast<double>(length) * static_cast<double>(length);
    return kernels::ExactFlops(shape.heads * shape.batch, options.causal ? all / 2 : all, shape.dim,
                               shape.value_dim, backward);
  }

  double Exponentials(const CacheShape& shape, int64_t length, const AttentionOptions& options,
                      bool backward) const override {
    const auto all = static_cast<double>(length) * static_cast<double>(length);
    return static_cast<double>(shape.heads * shape.batch) * (options.causal ? all / 2 : all) *
           (backward ? 2 : 1);
  }

  std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                   const AttentionOptions& options) const override {
    return std::make_unique<KeyCache>(shape, ScaleOf(options, shape.dim), kernels::ExactAttention);
  }
};

}  // namespace

const Kind& ExactKind() {
  static const Exact kind;
  return kind;
}

}  // namespace favor::attention
