// Functions of a token's position that are not learned: waves that are added to embeddings, and
// rotations of queries and keys. Angles are position/10000^(2i/width).
#ifndef FAVOR_LAYERS_POSITIONS_H_
#define FAVOR_LAYERS_POSITIONS_H_

#include <cstdint>

#include "favor/context.h"
#include "favor/tensor.h"

namespace favor::layers {

// Holds cos and sin of the angles of the positions in use.
class WaveTable {
 public:
  // `width` is even: width/2 angles per position.
  WaveTable(int64_t width, DataType type, Device device = {})
      : width_(width), type_(type), device_(device) {}

  // Sets the positions of the next rows to `first` … first + length − 1. Angles are computed if
  // they are not there yet: once for the longest sequence, and for some more tokens at a time after
  // a prefix, which come one by one. Memory is allocated only for more rows than ever before.
  void Cover(const Context& context, int64_t first, int64_t length);

  // x [batch·length, width] += sin in even columns, cos in odd ones.
  void AddTo(const Context& context, int64_t length, View x) const;
  // Turns each head's pairs of columns (i, i + width/2) of x [batch·length, heads·width] by the
  // angle of the row's position, or back.
  void Rotate(const Context& context, int64_t length, bool back, View x) const;

 private:
  int64_t width_;
  DataType type_;
  Device device_;
  // Position of the table's first row, and offset of the next rows from it.
  int64_t table_first_ = 0, offset_ = 0;
  Tensor table_;  // [positions, width/2, 2]: cos, sin
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_POSITIONS_H_
