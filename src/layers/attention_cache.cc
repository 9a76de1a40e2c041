#include "layers/attention_cache.h"

#include <algorithm>

#include "attention/kind.h"
#include "core/error_text.h"

namespace favor::layers {

Tensor Tail::Join(ConstView rows) {
  const auto before = static_cast<int64_t>(rows_.size()) / columns_, all = before + rows.size(0);
  Tensor joined({all, columns_});
  float* to = joined.Data<float>();
  std::ranges::copy(rows_, to);
  Copy(rows, joined.view().Range(0, before, rows.size(0)));
  const int64_t kept = std::min(most_, all);
  rows_.assign(to + (all - kept) * columns_, to + all * columns_);
  return joined;
}

void Tail::Store(const std::string& name, io::Safetensors& file) const {
  if (rows_.empty()) return;
  const Shape shape{static_cast<int64_t>(rows_.size()) / columns_, columns_};
  file.entries[name] = io::EntryOf(ConstView(rows_.data(), shape));
}

void Tail::Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
                const std::string& who) {
  rows_.clear();
  if (const int64_t rows = std::min(most_, tokens); rows > 0)
    rows_ = attention::LoadNumbers<float>(file, name, {rows, columns_}, who);
}

namespace {

int64_t TailRows(const AttentionShape& shape) {
  return std::max<int64_t>(0, shape.convolution - 1);
}

}  // namespace

AttentionCache::AttentionCache(const AttentionShape& shape)
    : query_tail_(shape.ReadsQueriesAndKeys() ? TailRows(shape) : 0, shape.query_columns),
      key_tail_(shape.ReadsQueriesAndKeys() ? TailRows(shape) : 0, shape.key_columns),
      value_tail_(TailRows(shape), shape.value_columns) {
  for (const HeadGroup& group : shape.groups) {
    parts_.push_back({.group = group,
                      .cache = attention::FindKind(group.options.attention)
                                   .MakeCache({.batch = 1,
                                               .heads = group.heads,
                                               .kv_heads = group.kv_heads,
                                               .dim = group.SeenDim(),
                                               .value_dim = group.value_dim,
                                               .forgets = group.Forgets()},
                                              group.options),
                      .prefix = shape.groups.size() == 1 ? std::string(".")
                                                         : fmt::format(".{}.", parts_.size())});
  }
}

AttentionCache::AttentionCache(const AttentionCache& other)
    : query_tail_(other.query_tail_), key_tail_(other.key_tail_), value_tail_(other.value_tail_) {
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
