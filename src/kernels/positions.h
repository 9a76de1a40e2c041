// Functions of a token's position that are not learned: waves that are added to embeddings, and
// rotations of queries and keys. Angles are position/10000^(2i/width).
#ifndef FAVOR_KERNELS_POSITIONS_H_
#define FAVOR_KERNELS_POSITIONS_H_

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/first_row.h"

namespace favor::kernels {

// The angles of the positions first, first + 1, …
struct WavesArguments {
  int64_t first;
  View waves;  // [positions, width/2, 2]: cos and sin
};

// x += sin in even columns, cos in odd ones. On a GPU waves are f32 or of the type of x.
struct AddWavesArguments {
  ConstView waves;  // [positions, width/2, 2]
  FirstRow first;   // row i of x takes row first + i % length of the waves
  int64_t length;
  View x;  // [rows, width]
};

// Turns each head's pairs of columns (i, i + width/2) by the angle of the row's position.
struct RotateArguments {
  ConstView waves;
  FirstRow first;
  int64_t length;
  bool back = false;  // turn by the negative angle
  View x;             // [rows, heads·width]; rows are contiguous, but may be apart
};

namespace cpu {  // the double instances of its loops are the reference
void Waves(const WavesArguments& a, const Context& context);
void AddWaves(const AddWavesArguments& a, const Context& context);
void Rotate(const RotateArguments& a, const Context& context);
}  // namespace cpu
namespace cuda {
void Waves(const WavesArguments& a, const Context& context);
void AddWaves(const AddWavesArguments& a, const Context& context);
void Rotate(const RotateArguments& a, const Context& context);
}  // namespace cuda

inline void Waves(const WavesArguments& a, const Context& context) {
  Run<WavesArguments>(
      {.name = "positions", .reference = cpu::Waves, .cpu = cpu::Waves, .cuda = cuda::Waves},
      a.waves, a, context);
}
inline void AddWaves(const AddWavesArguments& a, const Context& context) {
  Run<AddWavesArguments>({.name = "positions",
                          .reference = cpu::AddWaves,
                          .cpu = cpu::AddWaves,
                          .cuda = cuda::AddWaves},
                         a.x, a, context);
}
inline void Rotate(const RotateArguments& a, const Context& context) {
  Run<RotateArguments>(
      {.name = "rotation", .reference = cpu::Rotate, .cpu = cpu::Rotate, .cuda = cuda::Rotate}, a.x,
      a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_POSITIONS_H_
