// Softmax attention, as it is defined: O(L²) time. A token needs all keys and values before it.
#include <algorithm>

#include "attention/kind.h"
#include "kernels/attention_checks.h"
#include "kernels/exact_attention.h"

namespace favor::attention {
namespace {

// Keys or values of the tokens read: memory for twice as many when it is full.
class KeptTokens {
 public:
  KeptTokens(int64_t batch, int64_t heads, int64_t dim)
      : batch_(batch), heads_(heads), dim_(dim), memory_({batch, 0, heads, dim}) {}

  KeptTokens Clone() const {
    KeptTokens copy(batch_, heads_, dim_);
    copy.Append(AsHeads());
    return copy;
  }
  void Append(const ConstView& rows) {  // [batch, heads, length, dim]
    const int64_t needed = tokens_ + rows.size(2);
    if (needed > memory_.shape()[1]) {
      Tensor larger({batch_, std::max(needed, 2 * tokens_), heads_, dim_});
      Copy(std::as_const(memory_).view().Range(1, 0, tokens_), larger.view().Range(1, 0, tokens_));
      memory_ = std::move(larger);
    }
    tokens_ = needed;
    Copy(rows, View4(memory_.view(), needed - rows.size(2), rows.size(2)));
  }
  ConstView AsHeads() const {  // [batch, heads, tokens, dim]
    return View4(std::as_const(memory_).view(), 0, tokens_);
  }

  int64_t tokens() const { return tokens_; }
  int64_t Bytes() const {
    return batch_ * tokens_ * heads_ * dim_ * static_cast<int64_t>(sizeof(float));
  }

  // As [batch · tokens, heads · dim].
  void Store(const std::string& name, io::Safetensors& file) const {
    if (tokens_ == 0) return;
    const ConstView rows = std::as_const(memory_).view().Range(1, 0, tokens_);
    std::vector<float> values(static_cast<size_t>(rows.shape().Elements()));
    Copy(rows, View(values.data(), rows.shape()));
    file.Add(name, {batch_ * tokens_, heads_ * dim_}, std::move(values));
  }
  void Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
            const std::string& who) {
    const std::vector<float> values =
        LoadNumbers<float>(file, name, {batch_ * tokens, heads_ * dim_}, who);
    memory_ = Tensor({batch_, tokens, heads_, dim_});
    std::ranges::copy(values, memory_.Data<float>());
    tokens_ = tokens;
  }

 private:
  // `count` tokens from `begin` of [batch, capacity, heads, dim] as [batch, heads, count, dim].
  template <class AnyView>
  static AnyView View4(const AnyView& memory, int64_t begin, int64_t count) {
    const AnyView part = memory.Range(1, begin, count);
    return {part.data(),
            part.type(),
            {part.size(0), part.size(2), count, part.size(3)},
            {part.stride(0), part.stride(2), part.stride(1), part.stride(3)},
            part.device()};
  }

  int64_t batch_, heads_, dim_, tokens_ = 0;
  Tensor memory_;  // [batch, capacity, heads, dim]
};

class ExactCache : public Cache {
 public:
  ExactCache(const CacheShape& shape, double scale)
      : shape_(shape),
        scale_(scale),
        keys_(shape.batch, shape.kv_heads, shape.dim),
        values_(shape.batch, shape.kv_heads, shape.value_dim) {}

  std::unique_ptr<Cache> Clone() const override {
    auto copy = std::make_unique<ExactCache>(shape_, scale_);
    copy->keys_ = keys_.Clone();
    copy->values_ = values_.Clone();
    return copy;
  }

  void Attend(const AttentionInputs& inputs, View out, TallyEntry* tally,
              const Context& context) override {
    kernels::AttentionProblem problem = shape_.Problem(inputs, scale_);
    kernels::CountUnusable({.problem = problem, .key_mean = {}, .tally = tally}, context);
    if (tally->unusable > 0) return;  // this memory is the CPU's, and so is the tally
    problem.before = keys_.tokens();
    keys_.Append(inputs.k);
    values_.Append(inputs.v);
    problem.k = keys_.AsHeads();
    problem.v = values_.AsHeads();
    problem.key_length = keys_.tokens();
    kernels::ExactAttention({.problem = problem, .out = out, .log_sum = {}, .tally = tally},
                            context);
  }

  int64_t Bytes() const override { return keys_.Bytes() + values_.Bytes(); }

  void Store(const std::string& prefix, io::Safetensors& file) const override {
    keys_.Store(prefix + "keys", file);
    values_.Store(prefix + "values", file);
  }
  void Load(const std::string& prefix, const io::Safetensors& file, int64_t tokens,
            const std::string& who) override {
    keys_.Load(prefix + "keys", file, tokens, who);
    values_.Load(prefix + "values", file, tokens, who);
  }

 private:
  CacheShape shape_;
  double scale_;
  KeptTokens keys_, values_;
};

class Exact : public Kind {
 public:
  std::string_view name() const override { return "exact"; }
  std::string_view summary() const override { return "softmax, O(L²)"; }

  void Forward(const Call& call, const ForwardTo& to, const Context& context) const override {
    kernels::ExactAttention(to.Arguments(call.problem), context);
  }
  void Backward(const Call& call, const BackwardTo& to, const Context& context) const override {
    kernels::ExactAttentionBackward(to.Gradients(call.problem), context);
  }

  std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                   const AttentionOptions& options) const override {
    return std::make_unique<ExactCache>(shape, ScaleOf(options, shape.dim));
  }
};

}  // namespace

const Kind& ExactKind() {
  static const Exact kind;
  return kind;
}

}  // namespace favor::attention
