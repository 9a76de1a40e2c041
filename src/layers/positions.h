// Functions of a token's position that are not learned: waves that are added to embeddings, and
// rotations of queries and keys. Angles are position/10000^(2i/width).
#ifndef FAVOR_LAYERS_POSITIONS_H_
#define FAVOR_LAYERS_POSITIONS_H_

#include <cstdint>

#include "favor/context.h"
#include "favor/tensor.h"
#include "kernels/first_row.h"

namespace favor::layers {

using kernels::FirstRow;

// Holds cos and sin of the angles of the positions in use.
class WaveTable {
 public:
  // `width` is even: width/2 angles per position.
  WaveTable(int64_t width, DataType type, Device device = {})
      : width_(width), type_(type), device_(device) {}

  // Returns the row of position `first` in the table, which then holds all positions up to first +
  // length − 1. Angles are computed if they are not there yet: once for the longest sequence, and
  // for some more tokens at a time after a prefix, which come one by one. Memory is allocated only
  // for more rows than ever before.
  int64_t Cover(const Context& context, int64_t first, int64_t length);

  // Both for sequences whose first tokens take row `first` of the table.
  // x [batch·length, width] += sin in even columns, cos in odd ones.
  void AddTo(const Context& context, FirstRow first, int64_t length, View x) const;
  // Turns each head's pairs of columns (i, i + width/2) of x [batch·length, heads·width] by the
  // angle of the row's position, or back.
  void Rotate(const Context& context, FirstRow first, int64_t length, bool back, View x) const;

 private:
  int64_t width_;
  DataType type_;
  Device device_;
  int64_t table_first_ = 0;  // position of the table's first row
  Tensor table_;             // [positions, width/2, 2]: cos, sin
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_POSITIONS_H_
