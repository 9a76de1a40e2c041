// What a layer keeps of the tokens that it has read, so that the next ones can attend to them: the
// caches of its attention, and the last rows that short convolutions still reach.
#ifndef FAVOR_LAYERS_ATTENTION_CACHE_H_
#define FAVOR_LAYERS_ATTENTION_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attention/cache.h"
#include "favor/attention.h"
#include "io/safetensors.h"
#include "layers/head_groups.h"

namespace favor::layers {

// The last rows of a sequence, at most `most`.
class Tail {
 public:
  Tail(int64_t most, int64_t columns) : most_(most), columns_(columns) {}

  // The tail, then `rows` [any, columns]; the last of them are the tail now.
  Tensor Join(ConstView rows);
  int64_t Bytes() const { return static_cast<int64_t>(rows_.size() * sizeof(float)); }

  void Store(const std::string& name, io::Safetensors& file) const;
  // `tokens`: that were read, from which follows how many rows there must be.
  void Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
            const std::string& who);

 private:
  int64_t most_, columns_;
  std::vector<float> rows_;
};

class AttentionCache {
 public:
  // Options of causal attention, with a plan for kinds that take one.
  explicit AttentionCache(const AttentionShape& shape);
  AttentionCache(AttentionCache&&) = default;
  AttentionCache& operator=(AttentionCache&&) = default;
  AttentionCache Clone() const { return AttentionCache(*this); }

  Tail& query_tail() { return query_tail_; }
  Tail& key_tail() { return key_tail_; }
  Tail& value_tail() { return value_tail_; }

  // Rows [length, columns] of each, after convolution and rotation: each row attends to what was
  // read and to rows up to itself; then they have been read too. Rows that cannot be computed with
  // are counted in the tally.
  void Attend(const Context& context, View q, View k, View v, TallyEntry* tally, View out);

  int64_t Bytes() const;  // of what changes with the tokens

  // As tensors whose names begin with `name`; some point into this object.
  void Store(const std::string& name, io::Safetensors& file) const;
  // Of `tokens` tokens. Throws kInvalidData if the file's do not fit this layer.
  void Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
            const std::string& who);

 private:
  AttentionCache(const AttentionCache& other);

  struct Part {
    HeadGroup group;
    std::unique_ptr<attention::Cache> cache;
    std::string prefix;  // of its names: ".", or ".<group>." if there are several
  };

  Tail query_tail_, key_tail_, value_tail_;
  std::vector<Part> parts_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_ATTENTION_CACHE_H_
