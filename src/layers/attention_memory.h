// What a layer keeps of the tokens that it has read, so that the next ones can attend to them: the
// prefix state (linear attention, of a size that does not depend on their number), keys and values
// (exact), sums of values (uniform), and the last rows that short convolutions still reach.
#ifndef FAVOR_LAYERS_ATTENTION_MEMORY_H_
#define FAVOR_LAYERS_ATTENTION_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "favor/attention.h"
#include "favor/state.h"
#include "io/safetensors.h"

namespace favor::layers {

struct AttentionShape {
  int64_t width, heads, kv_heads;
  int64_t convolution = 0;  // taps of the convolutions of queries, keys and values; 0: none
  int64_t dim() const { return width / heads; }
  int64_t kv_width() const { return kv_heads * dim(); }
};

// [batch·length, heads·dim] seen as [batch, heads, length, dim].
View AsHeads(const View& rows, int64_t batch, int64_t length, int64_t dim);

// The last rows of a sequence, at most `most`.
class RowTail {
 public:
  RowTail(int64_t most, int64_t columns) : most_(most), columns_(columns) {}

  // The tail, then `rows` [any, columns]; the last of them are the tail now.
  Tensor Join(ConstView rows);
  int64_t Bytes() const { return static_cast<int64_t>(rows_.size() * sizeof(float)); }

  void Store(const std::string& name, io::Safetensors& file) const;
  // `tokens`: of the context, from which follows how many rows there must be.
  void Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
            const std::string& who);

 private:
  int64_t most_, columns_;
  std::vector<float> rows_;
};

class AttentionMemory {
 public:
  // `options` of causal attention; a plan where it is linear.
  AttentionMemory(const AttentionShape& shape, const AttentionOptions& options);
  AttentionMemory Clone() const;

  RowTail& query_tail() { return query_tail_; }
  RowTail& key_tail() { return key_tail_; }
  RowTail& value_tail() { return value_tail_; }

  // q and out [length, width], k and v [length, kv_width], after convolution and rotation: each row
  // attends to the memory and to rows up to itself; then they are part of the memory.
  void Attend(const Context& context, View q, View k, View v, View out);

  int64_t Bytes() const;  // of what changes with the context

  // As tensors whose names begin with `name`; some point into this object.
  void Store(const std::string& name, io::Safetensors& file) const;
  // Of `tokens` read tokens. Throws kInvalidData where the file's do not fit this layer.
  void Load(const std::string& name, const io::Safetensors& file, int64_t tokens,
            const std::string& who);

 private:
  void AttendExactly(const Context& context, View q, View k, View v, View out);
  void AttendUniformly(View v, View out);

  AttentionShape shape_;
  AttentionOptions options_;
  RowTail query_tail_, key_tail_, value_tail_;
  int64_t tokens_ = 0;
  std::optional<AttentionState> state_;  // linear
  std::vector<float> keys_, values_;     // exact: [tokens, kv_width]
  std::vector<double> sums_;             // uniform: of values, [kv_width]
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_ATTENTION_MEMORY_H_
