// Every query takes the mean of the values that it sees: attention that ignores queries and keys.
#include <algorithm>

#include "attention/kind.h"
#include "core/element.h"
#include "kernels/baseline_attention.h"

namespace favor::attention {
namespace {

// Sums of the values read.
class SumCache : public Cache {
 public:
  explicit SumCache(const CacheShape& shape)
      : shape_(shape),
        sums_(static_cast<size_t>(shape.batch * shape.kv_heads * shape.value_dim), 0.0) {}

  std::unique_ptr<Cache> Fork(int64_t times) const override {
    auto copy = std::make_unique<SumCache>(shape_.Times(times));
    copy->tokens_ = tokens_;
    for (size_t i = 0; i < copy->sums_.size(); ++i) copy->sums_[i] = sums_[i % sums_.size()];
    return copy;
  }

  void Attend(const AttentionInputs& inputs, const ConstView&, View out, TallyEntry* tally,
              const Context&) override {
    const int64_t length = inputs.v.size(2), shared = shape_.heads / shape_.kv_heads;
    tally->unusable += LargestAbsolute(inputs.v) <= kernels::kLargestValue ? 0 : length;
    if (tally->unusable > 0) return;
    for (int64_t batch = 0; batch < shape_.batch; ++batch) {
      for (int64_t head = 0; head < shape_.heads; ++head) {
        const int64_t kv_head = head / shared;
        const ConstView values = inputs.v.At(batch).At(kv_head);
        const View to = out.At(batch).At(head);
        double* sums = sums_.data() + (batch * shape_.kv_heads + kv_head) * shape_.value_dim;
        // Heads that share values: the last of them leaves the sums moved on.
        std::vector<double> running(sums, sums + shape_.value_dim);
        for (int64_t row = 0; row < length; ++row) {
          for (int64_t i = 0; i < shape_.value_dim; ++i) {
            double& sum = running[static_cast<size_t>(i)];
            sum += ElementAt(values, row, i);
            SetElement(to, row, i, sum / static_cast<double>(tokens_ + row + 1));
          }
        }
        if (head % shared == shared - 1) std::ranges::copy(running, sums);
      }
    }
    tokens_ += length;
  }

  int64_t Bytes() const override { return static_cast<int64_t>(sums_.size() * sizeof(double)); }

  void Store(const std::string& prefix, io::Safetensors& file) const override {
    file.Add(prefix + "sums", {static_cast<int64_t>(sums_.size())}, sums_);
  }
  void Load(const std::string& prefix, const io::Safetensors& file, int64_t tokens,
            const std::string& who) override {
    sums_ = LoadNumbers<double>(file, prefix + "sums", {static_cast<int64_t>(sums_.size())}, who);
    tokens_ = tokens;
  }

 private:
  CacheShape shape_;
  int64_t tokens_ = 0;
  std::vector<double> sums_;  // [batch, kv_heads, value_dim]
};

class Uniform : public Kind {
 public:
  std::string_view name() const override { return "uniform"; }
  std::string_view summary() const override { return "the mean of values"; }
  bool ReadsQueriesAndKeys() const override { return false; }

  void Forward(const Call& call, const ForwardTo& to, const Context& context) const override {
    kernels::UniformAttention(to.Arguments(call.problem), context);
  }
  void Backward(const Call& call, const BackwardTo& to, const Context& context) const override {
    kernels::UniformAttentionBackward(to.Gradients(call.problem), context);
  }

  std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                   const AttentionOptions&) const override {
    return std::make_unique<SumCache>(shape);
  }
};

}  // namespace

const Kind& UniformKind() {
  static const Uniform kind;
  return kind;
}

}  // namespace favor::attention
