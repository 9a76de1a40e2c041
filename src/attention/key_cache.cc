#include "attention/key_cache.h"

#include <algorithm>
#include <utility>

#include "core/repeated.h"
#include "kernels/attention_checks.h"
#include "kernels/copy.h"

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

KeptTokens KeptTokens::Fork(int64_t times) const {
  KeptTokens copy;
  copy.begin_ = begin_;
  copy.end_ = end_;
  copy.memory_ = Repeated(memory_, times);
  return copy;
}

void KeptTokens::Append(const ConstView& rows, const Context& context) {
  const int64_t count = rows.size(2), kept = tokens();
  const Shape& shape = memory_.shape();
  if (end_ + count > shape[1]) {
    // What is dropped leaves room for the others, or there is to be memory for twice as many.
    const bool fits = kept <= begin_ && kept + count <= shape[1];
    Tensor larger;
    if (!fits)
      larger = Tensor({shape[0], std::max(kept + count, 2 * kept), shape[2], shape[3]},
                      memory_.type(), memory_.device());
    const View to = (fits ? memory_ : larger).view();
    kernels::Copy({.from = Rows(), .to = to.Range(1, 0, kept)}, context);
    if (!fits) {
      context.Wait();  // for what reads the old memory
      memory_ = std::move(larger);
    }
    begin_ = 0;
    end_ = kept;
  }
  kernels::Copy({.from = rows, .to = HeadsOf(memory_.view(), end_, count)}, context);
  end_ += count;
}

void KeptTokens::DropAllBut(int64_t last) { begin_ = std::max(begin_, end_ - last); }

ConstView KeptTokens::AsHeads() const {
  return HeadsOf(std::as_const(memory_).view(), begin_, tokens());
}

int64_t KeptTokens::Bytes() const { return Rows().shape().Elements() * ItemBytes(memory_.type()); }

void KeptTokens::Store(const std::string& name, io::Safetensors& file) const {
  const Shape& shape = memory_.shape();
  if (tokens() > 0) StoreRows(Rows(), name, {shape[0] * tokens(), shape[2] * shape[3]}, file);
}

void KeptTokens::Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
                      const std::string& who) {
  const Shape shape = memory_.shape();
  memory_ = Tensor({shape[0], tokens, shape[2], shape[3]}, memory_.type(), memory_.device());
  if (tokens > 0)
    LoadRows(file, name, {shape[0] * tokens, shape[2] * shape[3]}, who, memory_.view());
  begin_ = 0;
  end_ = tokens;
}

KeyCache::KeyCache(const CacheShape& shape, double scale, Operation attend, int64_t window)
    : shape_(shape),
      scale_(scale),
      attend_(std::move(attend)),
      window_(window),
      keys_(shape, shape.dim),
      values_(shape, shape.value_dim) {}

std::unique_ptr<Cache> KeyCache::Fork(int64_t times) const {
  auto copy = std::make_unique<KeyCache>(shape_.Times(times), scale_, attend_, window_);
  copy->keys_ = keys_.Fork(times);
  copy->values_ = values_.Fork(times);
  return copy;
}

void KeyCache::Attend(const AttentionInputs& inputs, const ConstView&, View out, TallyEntry* tally,
                      const Context& context) {
  kernels::AttentionProblem problem = shape_.Problem(inputs, scale_);
  kernels::CountUnusable({.problem = problem, .key_mean = {}, .tally = tally}, context);
  if (shape_.device.type == DeviceType::kCpu && tally->unusable > 0) return;
  problem.before = keys_.tokens();
  problem.window = window_;
  keys_.Append(inputs.k, context);
  values_.Append(inputs.v, context);
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
