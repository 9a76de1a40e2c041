// Keys and values of the tokens that a causal model has read, for kinds that read them again: all
// of them, or the last ones that a window still reaches.
#ifndef FAVOR_ATTENTION_KEY_CACHE_H_
#define FAVOR_ATTENTION_KEY_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "attention/cache.h"

namespace favor::attention {

// Keys or values, [batch, heads, tokens, dim]. Appending takes amortised constant time per token.
class KeptTokens {
 public:
  // Rows of `dim` elements for each key head.
  KeptTokens(const CacheShape& shape, int64_t dim)
      : memory_({shape.batch, 0, shape.kv_heads, dim}, shape.type, shape.device) {}

  KeptTokens Fork(int64_t times) const;
  void Append(const ConstView& rows, const Context& context);  // [batch, heads, length, dim]
  void DropAllBut(int64_t last);
  ConstView AsHeads() const;  // [batch, heads, tokens, dim]

  int64_t tokens() const { return end_ - begin_; }
  int64_t Bytes() const;

  // As [batch · tokens, heads · dim].
  void Store(const std::string& name, io::Safetensors& file) const;
  void Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
            const std::string& who);

 private:
  KeptTokens() = default;
  ConstView Rows() const { return memory_.view().Range(1, begin_, tokens()); }

  int64_t begin_ = 0, end_ = 0;
  Tensor memory_;  // [batch, capacity, heads, dim], tokens begin_ … end_ − 1 of it in use
};

class KeyCache : public Cache {
 public:
  using Operation = std::function<void(const kernels::AttentionArguments&, const Context&)>;

  // `attend` runs on the kept keys and values with the new ones behind them. window < 0: none.
  KeyCache(const CacheShape& shape, double scale, Operation attend, int64_t window = -1);

  std::unique_ptr<Cache> Fork(int64_t times) const override;
  void Attend(const AttentionInputs& inputs, const ConstView&, View out, TallyEntry* tally,
              const Context& context) override;
  int64_t Bytes() const override { return keys_.Bytes() + values_.Bytes(); }
  void Store(const std::string& prefix, io::Safetensors& file) const override;
  void Load(const std::string& prefix, const io::Safetensors& file, int64_t tokens,
            const std::string& who) override;

 private:
  CacheShape shape_;
  double scale_;
  Operation attend_;
  int64_t window_;
  KeptTokens keys_, values_;
};

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_KEY_CACHE_H_
