#include "layers/attention_cache.h"

#include <algorithm>

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

int64_t TailRows(const AttentionShape& shape) {
  return std::max<int64_t>(0, shape.convolution - 1);
}

}  // namespace

AttentionCache::AttentionCache(const AttentionShape& shape, DataType type, const Device& device)
    : query_tail_(shape.ReadsQueriesAndKeys() ? TailRows(shape) : 0, shape.query_columns, type,
                  device),
      key_tail_(shape.ReadsQueriesAndKeys() ? TailRows(shape) : 0, shape.key_columns, type, device),
      value_tail_(TailRows(shape), shape.value_columns, type, device) {
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

AttentionCache::AttentionCache(const AttentionCache& other)
    : query_tail_(other.query_tail_.Clone()),
      key_tail_(other.key_tail_.Clone()),
      value_tail_(other.value_tail_.Clone()) {
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
  int64_t bytes = query_tail_.Bytes() + key_tail_.Bytes() + value_tail_.Bytes();
  for (const Part& part : parts_) bytes += part.cache->Bytes();
  return bytes;
}

void AttentionCache::Store(const std::string& name, io::Safetensors& file) const {
  query_tail_.Store(name + ".query_tail", file);
  key_tail_.Store(name + ".key_tail", file);
  value_tail_.Store(name + ".value_tail", file);
  for (const Part& part : parts_) part.cache->Store(name + part.prefix, file);
}

void AttentionCache::Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
                          const std::string& who) {
  query_tail_.Load(name + ".query_tail", file, tokens, who);
  key_tail_.Load(name + ".key_tail", file, tokens, who);
  value_tail_.Load(name + ".value_tail", file, tokens, who);
  for (const Part& part : parts_) part.cache->Load(name + part.prefix, file, tokens, who);
}

}  // namespace favor::layers
