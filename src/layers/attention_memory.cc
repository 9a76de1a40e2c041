#include "layers/attention_memory.h"

#include <algorithm>
#include <cmath>

#include "attention/kinds.h"
#include "attention/problem.h"
#include "attention/state_numbers.h"
#include "core/error_text.h"
#include "core/parallel.h"
#include "kernels/exact_attention.h"

namespace favor::layers {
namespace {

using attention::ContextMemory;

// Numbers of a file, of the expected shape and finite.
template <class T>
std::vector<T> Numbers(const io::Safetensors& file, const std::string& name,
                       const std::vector<int64_t>& shape, const std::string& who) {
  const io::SafetensorsEntry& entry = file.Entry(name, who);
  if (entry.shape != shape)
    Throw(ErrorCode::kInvalidData, Printable(who), "'{}' has another shape than the model's", name);
  std::vector<T> values = entry.Values<T>(who);
  for (const T value : values) {
    if (!std::isfinite(value))
      Throw(ErrorCode::kInvalidData, Printable(who), "'{}' holds NaN or infinity", name);
  }
  return values;
}

template <class T>
void Put(const std::string& name, const Shape& shape, const std::vector<T>& values,
         io::Safetensors& file) {
  file.entries[name] = io::EntryOf(ConstView(values.data(), shape));
}

}  // namespace

View AsHeads(const View& rows, int64_t batch, int64_t length, int64_t dim) {
  const int64_t columns = rows.size(1);
  return {rows.data(),
          rows.type(),
          {batch, columns / dim, length, dim},
          {length * columns, dim, columns, 1},
          rows.device()};
}

Tensor RowTail::Join(ConstView rows) {
  const auto before = static_cast<int64_t>(rows_.size()) / columns_, all = before + rows.size(0);
  Tensor joined({all, columns_});
  float* to = joined.Data<float>();
  std::ranges::copy(rows_, to);
  Copy(rows, joined.view().Range(0, before, rows.size(0)));
  const int64_t kept = std::min(most_, all);
  rows_.assign(to + (all - kept) * columns_, to + all * columns_);
  return joined;
}

void RowTail::Store(const std::string& name, io::Safetensors& file) const {
  if (rows_.empty()) return;
  Put(name, {static_cast<int64_t>(rows_.size()) / columns_, columns_}, rows_, file);
}

void RowTail::Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
                   const std::string& who) {
  rows_.clear();
  if (const int64_t rows = std::min(most_, tokens); rows > 0)
    rows_ = Numbers<float>(file, name, {rows, columns_}, who);
}

AttentionMemory::AttentionMemory(const AttentionShape& shape, const AttentionOptions& options)
    : shape_(shape),
      options_(options),
      query_tail_(std::max<int64_t>(0, shape.convolution - 1), shape.width),
      key_tail_(std::max<int64_t>(0, shape.convolution - 1), shape.kv_width()),
      value_tail_(std::max<int64_t>(0, shape.convolution - 1), shape.kv_width()) {
  const ContextMemory memory = attention::FindKind(options.attention).memory;
  if (memory == ContextMemory::kPrefixState)
    state_.emplace(*options.plan, StateOptions{.value_dim = shape.dim()});
  if (memory == ContextMemory::kSumOfValues)
    sums_.assign(static_cast<size_t>(shape.kv_width()), 0.0);
}

AttentionMemory AttentionMemory::Clone() const {
  AttentionMemory copy(shape_, options_);
  copy.query_tail_ = query_tail_;
  copy.key_tail_ = key_tail_;
  copy.value_tail_ = value_tail_;
  copy.tokens_ = tokens_;
  if (state_) copy.state_.emplace(state_->Clone());
  copy.keys_ = keys_;
  copy.values_ = values_;
  copy.sums_ = sums_;
  return copy;
}

void AttentionMemory::Attend(const Context& context, View q, View k, View v, View out) {
  const int64_t length = q.size(0);
  const auto heads = [&](const View& view) { return AsHeads(view, 1, length, shape_.dim()); };
  switch (attention::FindKind(options_.attention).memory) {
    case ContextMemory::kPrefixState:
      state_->ContinueInto({heads(q), heads(k), heads(v)}, context, heads(out));
      break;
    case ContextMemory::kKeysAndValues:
      AttendExactly(context, q, k, v, out);
      break;
    case ContextMemory::kSumOfValues:
      AttendUniformly(v, out);
      break;
    case ContextMemory::kNothing:  // a row attends to itself alone
      AttendInto({heads(q), heads(k), heads(v)}, options_, context, heads(out));
      break;
  }
  tokens_ += length;
}

void AttentionMemory::AttendExactly(const Context& context, View q, View k, View v, View out) {
  const int64_t length = q.size(0), dim = shape_.dim(), columns = shape_.kv_width();
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  attention::CheckQueryRange(AsHeads(q, 1, length, dim), scale);
  attention::CheckKeyRange(AsHeads(k, 1, length, dim), {}, scale);
  attention::CheckValueRange(AsHeads(v, 1, length, dim), {});
  keys_.insert(keys_.end(), k.Data<float>(), k.Data<float>() + length * columns);
  values_.insert(values_.end(), v.Data<float>(), v.Data<float>() + length * columns);
  const auto head_of = [&](std::vector<float>& rows, int64_t head) {
    return ConstView(rows.data() + head * dim, DataType::kF32, {tokens_ + length, dim},
                     {columns, 1}, Device{});
  };
  constexpr int64_t kRows = 64;  // of a task
  const int64_t blocks = (length + kRows - 1) / kRows;
  const auto attend = [&](int64_t piece, int64_t) {
    const int64_t head = piece / blocks, shared = head / (shape_.heads / shape_.kv_heads);
    const int64_t begin = piece % blocks * kRows;
    const kernels::ExactRows rows{.queries = AsHeads(q, 1, length, dim).At(0).At(head),
                                  .keys = head_of(keys_, shared),
                                  .values = head_of(values_, shared),
                                  .scale = scale,
                                  .causal = true,
                                  .before = tokens_};
    return kernels::cpu::Exact(rows, begin, std::min(length, begin + kRows), context,
                               {.output = AsHeads(out, 1, length, dim).At(0).At(head)});
  };
  const auto counts =
      ParallelReduce(context, shape_.heads * blocks, 1, kernels::RowCounts{}, attend,
                     [](auto& total, const kernels::RowCounts& part) { total += part; });
  // Means of values in range are in range, unless hundreds of millions of keys overflow their sum.
  if (counts.unusable > 0)
    Throw(ErrorCode::kInvalidData, "attend", "the result exceeds the range of f32");
}

void AttentionMemory::AttendUniformly(View v, View out) {
  const int64_t dim = shape_.dim(), group = shape_.heads / shape_.kv_heads;
  for (int64_t row = 0; row < v.size(0); ++row) {
    const float* values = v.Data<float>() + row * shape_.kv_width();
    float* to = out.Data<float>() + row * shape_.width;
    for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += static_cast<double>(values[i]);
    for (int64_t i = 0; i < shape_.width; ++i) {
      const auto from = static_cast<size_t>(i / dim / group * dim + i % dim);
      to[i] = static_cast<float>(sums_[from] / static_cast<double>(tokens_ + row + 1));
    }
  }
}

int64_t AttentionMemory::Bytes() const {
  return query_tail_.Bytes() + key_tail_.Bytes() + value_tail_.Bytes() +
         (state_ ? state_->Bytes() : 0) +
         static_cast<int64_t>((keys_.size() + values_.size()) * sizeof(float) +
                              sums_.size() * sizeof(double));
}

void AttentionMemory::Store(const std::string& name, io::Safetensors& file) const {
  query_tail_.Store(name + ".query_tail", file);
  key_tail_.Store(name + ".key_tail", file);
  value_tail_.Store(name + ".value_tail", file);
  if (!keys_.empty()) {
    Put(name + ".keys", {tokens_, shape_.kv_width()}, keys_, file);
    Put(name + ".values", {tokens_, shape_.kv_width()}, values_, file);
  }
  if (!sums_.empty()) Put(name + ".sums", {shape_.kv_width()}, sums_, file);
  if (state_) attention::StoreNumbers(state_->impl(), name + ".state.", file);
}

void AttentionMemory::Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
                           const std::string& who) {
  tokens_ = tokens;
  query_tail_.Load(name + ".query_tail", file, tokens, who);
  key_tail_.Load(name + ".key_tail", file, tokens, who);
  value_tail_.Load(name + ".value_tail", file, tokens, who);
  if (options_.attention == "exact") {
    keys_ = Numbers<float>(file, name + ".keys", {tokens, shape_.kv_width()}, who);
    values_ = Numbers<float>(file, name + ".values", {tokens, shape_.kv_width()}, who);
  }
  if (!sums_.empty()) sums_ = Numbers<double>(file, name + ".sums", {shape_.kv_width()}, who);
  if (!state_) return;
  attention::LoadNumbers(file, name + ".state.", who, state_->impl());
  for (const kernels::PrefixState& state : state_->impl().states) {
    if (state.tokens != tokens)
      Throw(ErrorCode::kInvalidData, Printable(who), "'{}' has read {} tokens, expected {}", name,
            state.tokens, tokens);
  }
}

}  // namespace favor::layers
