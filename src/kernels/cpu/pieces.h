// Segments cut into pieces, one per task.
#ifndef FAVOR_KERNELS_CPU_PIECES_H_
#define FAVOR_KERNELS_CPU_PIECES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/segment.h"

namespace favor::kernels::cpu {

// Elements [begin, end) of the array; a piece lies in one segment.
struct Piece {
  int64_t segment, begin, end;
};

inline std::vector<Piece> CutIntoPieces(const Segments& segments) {
  constexpr int64_t kElements = 16384;
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < segments.count; ++i) {
    const Segment& segment = segments.data[i];
    const int64_t last = segment.begin + segment.count;
    for (int64_t begin = segment.begin; begin < last; begin += kElements)
      pieces.push_back({i, begin, std::min(last, begin + kElements)});
  }
  return pieces;
}

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_PIECES_H_
