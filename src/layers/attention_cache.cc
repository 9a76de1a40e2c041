#include "layers/attention_cache.h"

#include <algorithm>
#include <utility>

#include "attention/kind.h"
#include "core/device.h"
#include "core/error_text.h"
#include "core/repeated.h"
#include "kernels/last_rows.h"

namespace favor::layers {

Tail::Tail(int64_t most, std::vector<NamedColumns> parts, DataType type, const Device& device)
    : parts_(std::move(parts)) {
  int64_t columns = 0;
  for (const NamedColumns& part : parts_) columns += part.columns;
  memory_ = Tensor({1, most, columns}, type, device);
}

Tail Tail::Fork(int64_t times) const {
  Tail copy;
  copy.parts_ = parts_;
  copy.rows_ = rows_;
  copy.memory_ = Repeated(memory_, times);
  return copy;
}

void Tail::Append(const Context& context, ConstView rows) {
  kernels::KeepLastRows({.rows = rows, .kept = memory_}, context);
  Advance(rows.size(0) / sequences());
}

void Tail::Advance(int64_t rows) { rows_ = std::min(Most(), rows_ + rows); }

int64_t Tail::Bytes() const { return sequences() * rows_ * Columns() * ItemBytes(memory_.type()); }

void Tail::Store(const std::string& prefix, io::Safetensors& file) const {
  if (rows_ == 0) return;
  const ConstView existing = rows().At(0).Range(0, Most() - rows_, rows_);
  int64_t first = 0;
  for (const auto& [name, columns] : parts_) {
    attention::StoreRows(existing.Range(1, first, columns), prefix + name, {rows_, columns}, file);
    first += columns;
  }
}

void Tail::Load(const std::string& prefix, const io::Safetensors& file, int64_t tokens,
                const std::string& who) {
  rows_ = std::min(Most(), tokens);
  Tensor all(memory_.shape(), memory_.type());
  const View rows = all.view().At(0).Range(0, Most() - rows_, rows_);
  int64_t first = 0;
  for (const auto& [name, columns] : parts_) {
    if (rows_ == 0) break;
    const std::vector<float> values =
        attention::LoadNumbers<float>(file, prefix + name, {rows_, columns}, who);
    Copy(ConstView(values.data(), {rows_, columns}), rows.Range(1, first, columns));
    first += columns;
  }
  CopyBytes(memory_.view().data(), memory_.device(), all.view().data(), {}, all.Bytes());
}

namespace {

// Of what attention reads.
std::vector<NamedColumns> TailParts(const AttentionShape& shape) {
  std::vector<NamedColumns> parts = shape.Projections(".", "_tail");
  if (!shape.ReadsQueriesAndKeys()) parts.erase(parts.begin(), parts.end() - 1);
  return parts;
}

}  // namespace

attention::CacheShape CacheShapeOf(const HeadGroup& group, int64_t batch, DataType type,
                                   const Device& device) {
  return {.batch = batch,
          .heads = group.heads,
          .kv_heads = group.kv_heads,
          .dim = group.SeenDim(),
          .value_dim = group.value_dim,
          .forgets = group.Forgets(),
          .type = type,
          .device = device};
}

AttentionCache::AttentionCache(const AttentionShape& shape, DataType type, const Device& device)
    : tail_(std::max<int64_t>(0, shape.convolution - 1), TailParts(shape), type, device) {
  for (const HeadGroup& group : shape.groups) {
    parts_.push_back(
        {.group = group,
         .cache = attention::FindKind(group.options.attention)
                      .MakeCache(CacheShapeOf(group, /*batch=*/1, type, device), group.options),
         .prefix =
             shape.groups.size() == 1 ? std::string(".") : fmt::format(".{}.", parts_.size())});
  }
}

AttentionCache AttentionCache::Fork(int64_t times) const {
  AttentionCache all(tail_.Fork(times));
  for (const Part& part : parts_)
    all.parts_.push_back({part.group, part.cache->Fork(times), part.prefix});
  return all;
}

void AttentionCache::Attend(const Context& context, const Rows& rows, TallyEntry* tally, View out) {
  const int64_t length = rows.q.size(0) / tail_.sequences();
  for (Part& part : parts_) {
    const HeadGroup& group = part.group;
    part.cache->Attend(
        {group.SeenQueries(rows.q, rows.query_features, length),
         group.SeenKeys(rows.k, rows.key_features, length), group.Values(rows.v, length)},
        group.Decays(rows.log_decay), group.Outputs(out, length), tally, context);
  }
}

bool AttentionCache::StaysInPlace() const {
  return std::ranges::all_of(parts_, [](const Part& part) { return part.cache->StaysInPlace(); });
}

void AttentionCache::Advance(int64_t tokens) {
  tail_.Advance(tokens);
  for (Part& part : parts_) part.cache->Advance(tokens);
}

int64_t AttentionCache::Bytes() const {
  int64_t bytes = tail_.Bytes();
  for (const Part& part : parts_) bytes += part.cache->Bytes();
  return bytes;
}

void AttentionCache::Store(const std::string& name, io::Safetensors& file) const {
  tail_.Store(name, file);
  for (const Part& part : parts_) part.cache->Store(name + part.prefix, file);
}

void AttentionCache::Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
                          const std::string& who) {
  tail_.Load(name, file, tokens, who);
  for (const Part& part : parts_) part.cache->Load(name + part.prefix, file, tokens, who);
}

}  // namespace favor::layers
