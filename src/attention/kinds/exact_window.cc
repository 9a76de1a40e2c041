// Softmax attention in a sliding window: query i sees the keys j with |i − j| ≤ window (causal: and
// j ≤ i). O(L·window) time; decoding keeps the last `window` keys and values.
#include <algorithm>
#include <array>

#include "attention/exact_cache.h"
#include "attention/kind.h"
#include "core/error_text.h"
#include "kernels/exact_attention.h"

namespace favor::attention {
namespace {

constexpr std::array<AttentionOptionInfo, 1> kOptions = {
    {{.name = "window",
      .help = "Largest distance between a query and the keys that it sees",
      .least = 0,
      .most = int64_t{1} << 40,
      .standard = 128}}};

class ExactWindow : public Kind {
 public:
  std::string_view name() const override { return "exact-window"; }
  std::string_view summary() const override { return "softmax over near keys, O(L·window)"; }
  std::span<const AttentionOptionInfo> options() const override { return kOptions; }

  void Complete(const AttentionOptions& options, const Context& context,
                Call& call) const override {
    Kind::Complete(options, context, call);
    kernels::AttentionProblem& problem = call.problem;
    if (problem.query_length != problem.key_length) {
      Throw(ErrorCode::kInvalidData, "attend",
            "given {} queries and {} keys, expected the same number for a window",
            problem.query_length, problem.key_length);
    }
    problem.window = call.kind_options[0];
  }
  void Forward(const Call& call, const ForwardTo& to, const Context& context) const override {
    kernels::ExactAttention(to.Arguments(call.problem), context);
  }
  void Backward(const Call& call, const BackwardTo& to, const Context& context) const override {
    kernels::ExactAttentionBackward(to.Gradients(call.problem), context);
  }

  double Flops(const CacheShape& shape, int64_t length, const AttentionOptions& options,
               bool backward) const override {
    // Pairs on one side of the diagonal: a band of `reach` keys, less the corner that is cut off.
    const auto l = static_cast<double>(length),
               reach = std::min(static_cast<double>(Window(options)), l - 1),
               side = reach * l - reach * (reach + 1) / 2;
    return kernels::ExactFlops(shape.heads * shape.batch, l + side * (options.causal ? 1 : 2),
                               shape.dim, shape.value_dim, backward);
  }

  std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                   const AttentionOptions& options) const override {
    return std::make_unique<ExactCache>(shape, ScaleOf(options, shape.dim), Window(options));
  }

 private:
  int64_t Window(const AttentionOptions& options) const {
    return KindOptionValues(*this, options.kind_options)[0];
  }
};

}  // namespace

const Kind& ExactWindowKind() {
  static const ExactWindow kind;
  return kind;
}

}  // namespace favor::attention
