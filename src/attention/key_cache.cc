#include "attention/key_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/attention_checks.h"

namespace favor::attention {
namespace {

// `count` tokens from `begin` of [batch, capacity, heads, dim] as [batch, heads, count, dim].
template <class AnyView>
AnyView HeadsOf(const AnyView& memory, int64_t begin, int64_t count) {
  const AnyView part = memory.Range(1, begin, count);
  return {part.data(),
          part.type(),
          {part.size(0), part.size(2), count, part.size(3)},
          {part.stride(0), part.stride(2), part.stride(1), part.stride(3)},
          part.device()};
}

}  // namespace

KeptTokens KeptTokens::Clone() const {
  KeptTokens copy(batch_, heads_, dim_);
  copy.Append(AsHeads());
  return copy;
}

void KeptTokens::Append(const ConstView& rows) {
  const int64_t count = rows.size(2), kept = tokens();
  if (end_ + count > memory_.shape()[1]) {  // memory for twice as many, or what is dropped reused
    Tensor larger({batch_, std::max(kept + count, 2 * kept), heads_, dim_});
    Copy(std::as_const(memory_).view().Range(1, begin_, kept), larger.view().Range(1, 0, kept));
    memory_ = std::move(larger);
    begin_ = 0;
    end_ = kept;
  }
  Copy(rows, HeadsOf(memory_.view(), end_, count));
  end_ += count;
}

void KeptTokens::DropAllBut(int64_t last) { begin_ = std::max(begin_, end_ - last); }

ConstView KeptTokens::AsHeads() const {
  return HeadsOf(std::as_const(memory_).view(), begin_, tokens());
}

int64_t KeptTokens::Bytes() const {
  return batch_ * tokens() * heads_ * dim_ * static_cast<int64_t>(sizeof(float));
}

void KeptTokens::Store(const std::string& name, io::Safetensors& file) const {
  if (tokens() == 0) return;
  const ConstView rows = std::as_const(memory_).view().Range(1, begin_, tokens());
  std::vector<float> values(static_cast<size_t>(rows.shape().Elements()));
  Copy(rows, View(values.data(), rows.shape()));
  file.Add(name, {batch_ * tokens(), heads_ * dim_}, std::move(values));
}

void KeptTokens::Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
                      const std::string& who) {
  memory_ = Tensor({batch_, tokens, heads_, dim_});
  if (tokens > 0) {
    const std::vector<float> values =
        LoadNumbers<float>(file, name, {batch_ * tokens, heads_ * dim_}, who);
    std::ranges::copy(values, memory_.Data<float>());
  }
  begin_ = 0;
  end_ = tokens;
}

KeyCache::KeyCache(const CacheShape& shape, double scale, Operation attend, int64_t window)
    : shape_(shape),
      scale_(scale),
      attend_(std::move(attend)),
      window_(window),
      keys_(shape.batch, shape.kv_heads, shape.dim),
      values_(shape.batch, shape.kv_heads, shape.value_dim) {}

std::unique_ptr<Cache> KeyCache::Clone() const {
  auto copy = std::make_unique<KeyCache>(shape_, scale_, attend_, window_);
  copy->keys_ = keys_.Clone();
  copy->values_ = values_.Clone();
  return copy;
}

void KeyCache::Attend(const AttentionInputs& inputs, const ConstView&, View out, TallyEntry* tally,
                      const Context& context) {
  kernels::AttentionProblem problem = shape_.Problem(inputs, scale_);
  kernels::CountUnusable({.problem = problem, .key_mean = {}, .tally = tally}, context);
  if (tally->unusable > 0) return;  // this memory is the CPU's, and so is the tally
  problem.before = keys_.tokens();
  problem.window = window_;
  keys_.Append(inputs.k);
  values_.Append(inputs.v);
  problem.k = keys_.AsHeads();
  problem.v = values_.AsHeads();
  problem.key_length = keys_.tokens();
  attend_({.problem = problem, .out = out, .log_sum = {}, .tally = tally}, context);
  if (window_ < 0) return;
  keys_.DropAllBut(window_);
  values_.DropAllBut(window_);
}

void KeyCache::Store(const std::string& prefix, io::Safetensors& file) const {
  keys_.Store(prefix + "keys", file);
  values_.Store(prefix + "values", file);
}

void KeyCache::Load(const std::string& prefix, const io::Safetensors& file, int64_t tokens,
                    const std::string& who) {
  const int64_t kept = window_ < 0 ? tokens : std::min(tokens, window_);
  keys_.Load(prefix + "keys", file, kept, who);
  values_.Load(prefix + "values", file, kept, who);
}

}  // namespace favor::attention
