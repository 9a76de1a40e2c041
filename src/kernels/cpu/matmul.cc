// Blocks of C, each with one owner, by the tile products of simd/gemm: B is copied into rows that
// lie together, 64 terms of the sum at a time, and a transposed A likewise.
#include "kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>

#include "core/context_impl.h"
#include "core/parallel.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm-inl.h"
#include "kernels/cpu/simd/gemm_types.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

void MultiplyOnTarget(const Operand& a, const float* b, int64_t b_step, int64_t rows,
                      int64_t columns, int64_t depth, const Result& c) {
  Multiply(a, b, b_step, rows, columns, depth, c);
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(MultiplyOnTarget);

namespace {

// Of a block of C; a block and what it reads stay in the second cache (192·256 floats: 192 KiB).
constexpr int64_t kBlockRows = 192, kBlockColumns = 256;
// A sum is cut among tasks where C has fewer blocks than this and the pieces stay this long.
constexpr int64_t kFewBlocks = 8, kLeastPiece = 512;

// Lengths that differ by little and are whole tiles.
int64_t BlockLength(int64_t total, int64_t most, int64_t multiple) {
  const int64_t blocks = (total + most - 1) / most;
  return ((total + blocks - 1) / blocks + multiple - 1) / multiple * multiple;
}

struct Matrix {
  const float* data;
  int64_t row_step, column_step;
};

// C[rows, columns] = or += A·B over `depth` terms; one task.
struct Block {
  Matrix a, b;  // b.column_step is 1
  float* c;
  int64_t c_step;
  int64_t rows, columns, depth;
  bool add;
  const float* bias;  // of these columns; null: none
};

void CopyRows(const float* from, int64_t from_step, int64_t rows, int64_t columns, int64_t to_step,
              float* to) {
  const int64_t padded = PaddedColumns(columns);
  for (int64_t row = 0; row < rows; ++row, from += from_step, to += to_step) {
    std::copy_n(from, columns, to);
    std::fill(to + columns, to + padded, 0.0f);
  }
}

void ComputeBlock(const Block& block, const Context& context) {
  // Whole vectors of C are written in place, what is left of a row through a buffer.
  const int64_t whole = block.columns / kWidestVector * kWidestVector, rest = block.columns - whole;
  const int64_t b_step = RowStep(block.columns), a_step = RowStep(block.rows);
  const bool copy_a = block.a.column_step != 1;
  const Scratch<float> b_rows(context, kDepth * b_step);
  const Scratch<float> a_rows(context, kDepth * a_step);
  const Scratch<float> edge(context, rest > 0 ? block.rows * kWidestVector : 1);
  if (block.bias != nullptr) {
    for (int64_t row = 0; row < block.rows; ++row)
      std::copy_n(block.bias, block.columns, block.c + row * block.c_step);
  }
  const bool add = block.add || block.bias != nullptr;
  for (int64_t first = 0; first < block.depth; first += kDepth) {
    const int64_t depth = std::min(kDepth, block.depth - first);
    CopyRows(block.b.data + first * block.b.row_step, block.b.row_step, depth, block.columns,
             b_step, b_rows.data());
    const float* a_from = block.a.data + first * block.a.column_step;
    Operand a{a_rows.data(), kDepth, 1};
    if (copy_a) {
      CopyRows(a_from, block.a.column_step, depth, block.rows, a_step, a_rows.data());
      a = {a_rows.data(), 1, a_step};
    } else {
      for (int64_t row = 0; row < block.rows; ++row)
        std::copy_n(a_from + row * block.a.row_step, depth, a_rows.data() + row * kDepth);
    }
    const ResultMode mode = add || first > 0 ? ResultMode::kAdd : ResultMode::kStore;
    if (whole > 0) {
      HWY_DYNAMIC_DISPATCH(MultiplyOnTarget)
      (a, b_rows.data(), b_step, block.rows, whole, depth, {block.c, block.c_step, mode});
    }
    if (rest == 0) continue;
    HWY_DYNAMIC_DISPATCH(MultiplyOnTarget)
    (a, b_rows.data() + whole, b_step, block.rows, rest, depth,
     {edge.data(), kWidestVector, ResultMode::kStore});
    for (int64_t row = 0; row < block.rows; ++row) {
      float* to = block.c + row * block.c_step + whole;
      const float* from = edge.data() + row * kWidestVector;
      for (int64_t j = 0; j < rest; ++j)
        to[j] = mode == ResultMode::kAdd ? to[j] + from[j] : from[j];
    }
  }
}

// `to` [rows, columns] from a matrix whose columns lie together, through tiles of one cache line a
// row on both sides.
void TransposeInto(const Matrix& from, int64_t rows, int64_t columns, int64_t to_step,
                   const Context& context, float* to) {
  constexpr int64_t kTile = 16;
  ParallelForBlocks(context, rows, kTile, [&](int64_t begin, int64_t end) {
    float tile[kTile][kTile] = {};
    for (int64_t first = 0; first < columns; first += kTile) {
      const int64_t count = std::min(kTile, columns - first);
      for (int64_t j = 0; j < count; ++j)
        std::copy_n(from.data + (first + j) * from.column_step + begin, end - begin, tile[j]);
      for (int64_t i = begin; i < end; ++i) {
        float* row = to + i * to_step + first;
        for (int64_t j = 0; j < count; ++j) row[j] = tile[j][i - begin];
      }
    }
  });
}

// Sums of pieces of the depth, computed apart and added in their order.
void InPieces(const Block& all, int64_t pieces, int64_t block_rows, int64_t block_columns,
              const Context& context) {
  const int64_t row_blocks = (all.rows + block_rows - 1) / block_rows,
                column_blocks = (all.columns + block_columns - 1) / block_columns;
  const int64_t piece_depth = BlockLength(all.depth, (all.depth + pieces - 1) / pieces, kDepth);
  pieces = (all.depth + piece_depth - 1) / piece_depth;
  const int64_t partial = all.rows * all.columns;
  const Scratch<float> partials(context, pieces > 1 ? pieces * partial : 1);
  ParallelFor(context, pieces * row_blocks * column_blocks, [&](int64_t task) {
    const int64_t piece = task / (row_blocks * column_blocks),
                  row = task / column_blocks % row_blocks * block_rows,
                  column = task % column_blocks * block_columns, first = piece * piece_depth;
    Block block = all;
    if (pieces > 1) {
      block.c = partials.data() + piece * partial;
      block.c_step = all.columns;
      block.add = false;
      block.bias = nullptr;
    }
    block.a.data += row * all.a.row_step + first * all.a.column_step;
    block.b.data += first * all.b.row_step + column;
    block.c += row * block.c_step + column;
    if (block.bias != nullptr) block.bias += column;
    block.rows = std::min(block_rows, all.rows - row);
    block.columns = std::min(block_columns, all.columns - column);
    block.depth = std::min(piece_depth, all.depth - first);
    ComputeBlock(block, context);
  });
  if (pieces == 1) return;
  ParallelForBlocks(context, all.rows, std::max<int64_t>(1, 65536 / (all.columns * pieces)),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t row = begin; row < end; ++row) {
                        float* to = all.c + row * all.c_step;
                        for (int64_t j = 0; j < all.columns; ++j) {
                          float sum = all.add ? to[j] : all.bias != nullptr ? all.bias[j] : 0;
                          for (int64_t piece = 0; piece < pieces; ++piece)
                            sum += partials[piece * partial + row * all.columns + j];
                          to[j] = sum;
                        }
                      }
                    });
}

}  // namespace

void Matmul(const MatmulArguments& arguments, const Context& context) {
  const auto& [a, b, c, add, bias] = arguments;
  Block all{.a = {a.Data<float>(), a.stride(0), a.stride(1)},
            .b = {b.Data<float>(), b.stride(0), b.stride(1)},
            .c = c.Data<float>(),
            .c_step = c.stride(0),
            .rows = c.size(0),
            .columns = c.size(1),
            .depth = a.size(1),
            .add = add,
            .bias = bias.data() == nullptr ? nullptr : bias.Data<float>()};
  // Weights: they are small beside what they multiply, so a whole copy costs little.
  const int64_t step = RowStep(all.columns);
  const bool transpose = all.b.column_step != 1;
  const Scratch<float> transposed(context, transpose ? all.depth * step : 1);
  if (transpose) {
    TransposeInto(all.b, all.depth, all.columns, step, context, transposed.data());
    all.b = {transposed.data(), step, 1};
  }
  const int64_t block_rows = BlockLength(all.rows, kBlockRows, 6),
                block_columns = BlockLength(all.columns, kBlockColumns, kWidestVector);
  const int64_t blocks = ((all.rows + block_rows - 1) / block_rows) *
                         ((all.columns + block_columns - 1) / block_columns);
  const int64_t wanted = blocks < kFewBlocks ? 2 * kFewBlocks / blocks : 1;
  InPieces(all, std::clamp<int64_t>(all.depth / kLeastPiece, 1, wanted), block_rows, block_columns,
           context);
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
