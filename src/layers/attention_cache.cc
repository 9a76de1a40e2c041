#include "layers/attention_cache.h"

#include <algorithm>
#include <array>

#include "attention/kind.h"
#include "core/error_text.h"
#include "kernels/copy.h"

namespace favor::layers {

Tail Tail::Clone() const {
  Tail copy;
  copy.rows_ = rows_;
  copy.memory_ = memory_.Clone();
  return copy;
}

void Tail::Join(const Context& context, ConstView rows, View joined) {
  const int64_t all = joined.size(0);
  const View memory = memory_.view();
  kernels::Copy({.from = memory.Range(0, 0, rows_), .to = joined.Range(0, 0, rows_)}, context);
  kernels::Copy({.from = rows, .to = joined.Range(0, rows_, rows.size(0))}, context);
  rows_ = std::min(memory.size(0), all);
  kernels::Copy({.from = joined.Range(0, all - rows_, rows_), .to = memory.Range(0, 0, rows_)},
                context);
}

int64_t Tail::Bytes() const { return rows_ * memory_.shape()[1] * ItemBytes(memory_.type()); }

void Tail::Store(const std::string& name, io::Safetensors& file) const {
  if (rows_ == 0) return;
  attention::StoreRows(memory_.view().Range(0, 0, rows_), name, {rows_, memory_.shape()[1]}, file);
}

void Tail::Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
                const std::string& who) {
  rows_ = std::min(memory_.shape()[0], tokens);
  if (rows_ == 0) return;
  attention::LoadRows(file, name, {rows_, memory_.shape()[1]}, who,
                      memory_.view().Range(0, 0, rows_));
}

namespace {

// Of queries, keys and values in files.
constexpr std::array kTailNames = {".query_tail", ".key_tail", ".value_tail"};

}  // namespace

AttentionCache::AttentionCache(const AttentionShape& shape, DataType type, const Device& device) {
  const int64_t of_values = std::max<int64_t>(0, shape.convolution - 1),
                of_others = shape.ReadsQueriesAndKeys() ? of_values : 0;
  tails_.emplace_back(of_others, shape.query_columns, type, device);
  tails_.emplace_back(of_others, shape.key_columns, type, device);
  tails_.emplace_back(of_values, shape.value_columns, type, device);
  for (const HeadGroup& group : shape.groups) {
    parts_.push_back({.group = group,
                      .cache = attention::FindKind(group.options.attention)
                                   .MakeCache({.batch = 1,
                                               .heads = group.heads,
                                               .kv_heads = group.kv_heads,
                                               .dim = group.SeenDim(),
                                               .value_dim = group.value_dim,
                                               .forgets = group.Forgets(),
                                               .type = type,
                                               .device = device},
                                              group.options),
                      .prefix = shape.groups.size() == 1 ? std::string(".")
                                                         : fmt::format(".{}.", parts_.size())});
  }
}

AttentionCache::AttentionCache(const AttentionCache& other) {
  for (const Tail& tail : other.tails_) tails_.push_back(tail.Clone());
  for (const Part& part : other.parts_)
    parts_.push_back({part.group, part.cache->Clone(), part.prefix});
}

void AttentionCache::Attend(const Context& context, const Rows& rows, TallyEntry* tally, View out) {
  const int64_t length = rows.q.size(0);
  for (Part& part : parts_) {
    const HeadGroup& group = part.group;
    part.cache->Attend(
        {group.SeenQueries(rows.q, rows.query_features, length),
         group.SeenKeys(rows.k, rows.key_features, length), group.Values(rows.v, length)},
        group.Decays(rows.log_decay), group.Outputs(out, length), tally, context);
  }
}

int64_t AttentionCache::Bytes() const {
  int64_t bytes = 0;
  for (const Tail& tail : tails_) bytes += tail.Bytes();
  for (const Part& part : parts_) bytes += part.cache->Bytes();
  return bytes;
}

void AttentionCache::Store(const std::string& name, io::Safetensors& file) const {
  for (size_t i = 0; i < tails_.size(); ++i) tails_[i].Store(name + kTailNames[i], file);
  for (const Part& part : parts_) part.cache->Store(name + part.prefix, file);
}

void AttentionCache::Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
                          const std::string& who) {
  for (size_t i = 0; i < tails_.size(); ++i)
    tails_[i].Load(name + kTailNames[i], file, tokens, who);
  for (const Part& part : parts_) part.cache->Load(name + part.prefix, file, tokens, who);
}

}  // namespace favor::layers
