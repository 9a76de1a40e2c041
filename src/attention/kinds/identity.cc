// Every token attends to itself alone: out = v, the line that attention must beat.
#include "attention/kind.h"
#include "core/error_text.h"
#include "kernels/attention_checks.h"
#include "kernels/baseline_attention.h"

namespace favor::attention {
namespace {

// A token needs nothing of those before it.
class NoCache : public Cache {
 public:
  explicit NoCache(const CacheShape& shape) : shape_(shape) {}

  std::unique_ptr<Cache> Fork(int64_t times) const override {
    return std::make_unique<NoCache>(shape_.Times(times));
  }
  void Attend(const AttentionInputs& inputs, const ConstView&, View out, TallyEntry* tally,
              const Context& context) override {
    kernels::AttentionProblem problem = shape_.Problem(inputs);
    problem.q = problem.k = {};  // not read
    kernels::CountUnusable({.problem = problem, .key_mean = {}, .tally = tally}, context);
    kernels::IdentityAttention({.problem = problem, .out = out, .log_sum = {}, .tally = tally},
                               context);
  }
  bool StaysInPlace() const override { return true; }
  int64_t Bytes() const override { return 0; }
  void Store(const std::string&, io::Safetensors&) const override {}
  void Load(const std::string&, const io::Safetensors&, int64_t, const std::string&) override {}

 private:
  CacheShape shape_;
};

class Identity : public Kind {
 public:
  std::string_view name() const override { return "identity"; }
  std::string_view summary() const override { return "out = v: no token sees another"; }
  bool ReadsQueriesAndKeys() const override { return false; }
  bool RunsOnGpu() const override { return true; }

  void Complete(const AttentionOptions& options, const Context& context,
                Call& call) const override {
    Kind::Complete(options, context, call);
    if (call.problem.query_length != call.problem.key_length) {
      Throw(ErrorCode::kInvalidData, "attend",
            "given {} queries and {} keys, expected the same number for identity attention",
            call.problem.query_length, call.problem.key_length);
    }
  }
  void Forward(const Call& call, const ForwardTo& to, const Context& context) const override {
    kernels::IdentityAttention(to.Arguments(call.problem), context);
  }
  void Backward(const Call& call, const BackwardTo& to, const Context& context) const override {
    kernels::IdentityAttentionBackward(to.Gradients(call.problem), context);
  }

  std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                   const AttentionOptions&) const override {
    return std::make_unique<NoCache>(shape);
  }
};

}  // namespace

const Kind& IdentityKind() {
  static const Identity kind;
  return kind;
}

}  // namespace favor::attention
