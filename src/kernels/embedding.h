// Looking up rows of a table: by token, or by position for learned positions.
#ifndef FAVOR_KERNELS_EMBEDDING_H_
#define FAVOR_KERNELS_EMBEDDING_H_

#include <cstdint>

#include "core/host_device.h"
#include "kernels/backend.h"
#include "kernels/first_row.h"

namespace favor::kernels {

// Which row of the table each row takes: that of its index, or that of its position in a sequence.
struct TableRows {
  const int32_t* indices = nullptr;  // [rows], in memory of the device; null: positions
  FirstRow first{};                  // for positions: row i is at position first + i % length
  int64_t length = 1;

  FAVOR_HOST_DEVICE int64_t At(int64_t row) const {
    return indices != nullptr ? indices[row] : first.Get() + row % length;
  }
};

struct EmbeddingArguments {
  ConstView table;  // [entries, width]
  TableRows rows;   // all within the table
  double scale;
  bool add = false;  // add to y
  View y;            // [rows, width] = scale·table[rows]
};

struct EmbeddingGradients {
  ConstView grad_y;  // [rows, width]
  TableRows rows;    // positions begin at a known one
  double scale;
  View grad_table;  // [entries, width], added to; on a GPU f32
};

namespace cpu {  // the double instances of its loops are the reference
void Embedding(const EmbeddingArguments& a, const Context& context);
void EmbeddingBackward(const EmbeddingGradients& a, const Context& context);
}  // namespace cpu
namespace cuda {
void Embedding(const EmbeddingArguments& a, const Context& context);
void EmbeddingBackward(const EmbeddingGradients& a, const Context& context);
}  // namespace cuda

inline void Embedding(const EmbeddingArguments& a, const Context& context) {
  Run<EmbeddingArguments>({.name = "embedding",
                           .reference = cpu::Embedding,
                           .cpu = cpu::Embedding,
                           .cuda = cuda::Embedding},
                          a.y, a, context);
}
inline void EmbeddingBackward(const EmbeddingGradients& a, const Context& context) {
  Run<EmbeddingGradients>({.name = "embedding",
                           .reference = cpu::EmbeddingBackward,
                           .cpu = cpu::EmbeddingBackward,
                           .cuda = cuda::EmbeddingBackward,
                           .describe = OfGradients},
                          a.grad_table, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_EMBEDDING_H_
