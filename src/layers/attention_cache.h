// What a layer keeps of the tokens that it has read, so that the next ones can attend to them: the
// caches of its attention, and the last rows that short convolutions still reach.
#ifndef FAVOR_LAYERS_ATTENTION_CACHE_H_
#define FAVOR_LAYERS_ATTENTION_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/cache.h"
#include "favor/attention.h"
#include "io/safetensors.h"
#include "layers/head_groups.h"
#include "layers/named_columns.h"

namespace favor::layers {

// The last rows of sequences of one length, `most` of each, where and as their layer makes them:
// zeros in place of those before the beginning.
class Tail {
 public:
  // Files keep each part as a tensor of its own.
  Tail(int64_t most, std::vector<NamedColumns> parts, DataType type = DataType::kF32,
       const Device& device = {});
  Tail Fork(int64_t times) const;  // as attention::Cache says

  int64_t sequences() const { return memory_.shape()[0]; }  // 1 at first
  // [sequences, most, columns], in one place for ever
  ConstView rows() const { return memory_; }
  // `rows` [sequences · any, columns] follow.
  void Append(const Context& context, ConstView rows);
  // So many rows of each have followed, by work that was recorded in Append.
  void Advance(int64_t rows);
  int64_t Bytes() const;  // of the rows that exist

  // Both for one sequence. Names of tensors begin with `prefix`.
  void Store(const std::string& prefix, io::Safetensors& file) const;
  // `tokens` is the length of the sequence, which determines how many rows there must be.
  void Load(const std::string& prefix, const io::Safetensors& file, int64_t tokens,
            const std::string& who);

 private:
  Tail() = default;
  int64_t Most() const { return memory_.shape()[1]; }
  int64_t Columns() const { return memory_.shape()[2]; }

  std::vector<NamedColumns> parts_;
  int64_t rows_ = 0;  // of each sequence, those that exist
  Tensor memory_;     // [sequences, most, columns]
};

// What a group of heads tells its kind of attention.
attention::CacheShape CacheShapeOf(const HeadGroup& group, int64_t batch, DataType type,
                                   const Device& device);

class AttentionCache {
 public:
  // The groups have options of causal attention, with a plan for kinds that take one. Rows will be
  // of this type and there.
  explicit AttentionCache(const AttentionShape& shape, DataType type = DataType::kF32,
                          const Device& device = {});
  AttentionCache(AttentionCache&&) = default;
  AttentionCache& operator=(AttentionCache&&) = default;
  AttentionCache Fork(int64_t times) const;  // as attention::Cache says

  Tail& tail() { return tail_; }  // of what attention reads of queries, keys and values

  // Rows that follow the prefixes, [sequences · length], after convolution, rotation and
  // projection.
  struct Rows {
    View q, k, v;                                 // [rows, columns]
    View query_features = {}, key_features = {};  // [rows, columns] of groups that are projected
    ConstView log_decay = {};                     // [sequences, heads that forget, length]
  };
  // Each row attends to the prefix and to rows up to itself; then the rows become part of the
  // prefix. Unusable rows are counted in the tally, as by attention::Cache.
  void Attend(const Context& context, const Rows& rows, TallyEntry* tally, View out);

  // As attention::Cache says.
  bool StaysInPlace() const;
  void Advance(int64_t tokens);
  int64_t Bytes() const;  // size of what changes with the tokens

  // Adds tensors whose names begin with `name` to the file.
  void Store(const std::string& name, io::Safetensors& file) const;
  // Restores a cache that has read `tokens` tokens. Throws kInvalidData if the file's tensors do
  // not fit this layer.
  void Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
            const std::string& who);

 private:
  explicit AttentionCache(Tail tail) : tail_(std::move(tail)) {}

  struct Part {
    HeadGroup group;
    std::unique_ptr<attention::Cache> cache;
    std::string prefix;  // begins the names of its tensors: "."; ".<group>." if several
  };

  Tail tail_;
  std::vector<Part> parts_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_ATTENTION_CACHE_H_
