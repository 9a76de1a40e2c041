// Matrix products: blocks of C, each with one owner, by the tile products of simd/gemm; B, and A
// unless its rows are short, are copied into contiguous rows, 64 terms of the sum at a time.
#include "kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <optional>

#include "core/parallel.h"
#include "core/scratch.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm-inl.h"
#include "kernels/cpu/simd/gemm_types.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

void MultiplyOnTarget(const Operand& a, const float* b, int64_t b_step, int64_t rows,
                      int64_t columns, int64_t depth, const Result& c) {
  Multiply(a, b, b_step, rows, columns, depth, c);
}

// out[j] = a·(row j of b), for contiguous rows of b. Each row of b is read once, from front to
// back: with so few rows of A, the time is that of reading B.
void DotRowsOnTarget(const float* a, const float* b, int64_t b_step, int64_t rows, int64_t depth,
                     float* out) {
  const FloatTag tag;
  const int64_t lanes = Lanes(), whole = depth / (2 * lanes) * (2 * lanes);
  constexpr int64_t kTogether = 4;
  for (int64_t j = 0; j < rows; j += kTogether) {
    const int64_t count = std::min(kTogether, rows - j);
    const float* from[kTogether];
    for (int64_t i = 0; i < kTogether; ++i) from[i] = b + (j + std::min(i, count - 1)) * b_step;
    Floats sum0 = hn::Zero(tag), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    Floats more0 = sum0, more1 = sum0, more2 = sum0, more3 = sum0;
    for (int64_t k = 0; k < whole; k += 2 * lanes) {
      const Floats x = hn::LoadU(tag, a + k), y = hn::LoadU(tag, a + k + lanes);
      sum0 = hn::MulAdd(x, hn::LoadU(tag, from[0] + k), sum0);
      sum1 = hn::MulAdd(x, hn::LoadU(tag, from[1] + k), sum1);
      sum2 = hn::MulAdd(x, hn::LoadU(tag, from[2] + k), sum2);
      sum3 = hn::MulAdd(x, hn::LoadU(tag, from[3] + k), sum3);
      more0 = hn::MulAdd(y, hn::LoadU(tag, from[0] + k + lanes), more0);
      more1 = hn::MulAdd(y, hn::LoadU(tag, from[1] + k + lanes), more1);
      more2 = hn::MulAdd(y, hn::LoadU(tag, from[2] + k + lanes), more2);
      more3 = hn::MulAdd(y, hn::LoadU(tag, from[3] + k + lanes), more3);
    }
    float sums[kTogether] = {hn::GetLane(hn::SumOfLanes(tag, hn::Add(sum0, more0))),
                             hn::GetLane(hn::SumOfLanes(tag, hn::Add(sum1, more1))),
                             hn::GetLane(hn::SumOfLanes(tag, hn::Add(sum2, more2))),
                             hn::GetLane(hn::SumOfLanes(tag, hn::Add(sum3, more3)))};
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t k = whole; k < depth; ++k) sums[i] += a[k] * from[i][k];
      out[j + i] = sums[i];
    }
  }
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(MultiplyOnTarget);
HWY_EXPORT(DotRowsOnTarget);

namespace {

// Up to this many rows of A, B is read in place: copying it would cost more than the product.
constexpr int64_t kFewRows = 4;
constexpr int64_t kTaskElements = 1 << 16;  // elements of B in one task

// C is computed in blocks of this many rows and columns; a block, the rows of B that it reads and
// 64 terms of A stay in the L2 cache (192·256 floats: 192 KiB).
constexpr int64_t kBlockRows = 192, kBlockColumns = 256;
// A's rows are copied this many terms at a time and serve all columns of a task.
constexpr int64_t kCopiedDepth = 1024;
// Rows of A up to this long are read in place: a copy costs more than it saves. Longer ones lie at
// strides at which their parts compete for the same sets of the cache.
constexpr int64_t kMostInPlace = 512;
// A task takes all columns of its rows if there are at least kFewBlocks blocks of rows; a sum is
// cut among tasks if there are fewer blocks in all and the pieces keep at least kLeastPiece terms.
constexpr int64_t kFewBlocks = 8, kLeastPiece = 512;
// B is copied once for all tasks up to this size: weights are smaller, batches larger.
constexpr int64_t kMostShared = int64_t{1} << 22;

// A block length that is a multiple of whole tiles and makes blocks about equally long.
int64_t BlockLength(int64_t total, int64_t most, int64_t multiple) {
  const int64_t blocks = (total + most - 1) / most;
  return ((total + blocks - 1) / blocks + multiple - 1) / multiple * multiple;
}
int64_t Blocks(int64_t total, int64_t length) { return (total + length - 1) / length; }

struct Matrix {
  const float* data;
  int64_t row_step, column_step;
};

// C[rows, columns] = or += A·B over `depth` terms.
struct Product {
  Matrix a, b;  // either rows or columns are contiguous
  float* c;
  int64_t c_step;
  int64_t rows, columns, depth;
  bool add;
  const float* bias;  // bias of these columns; null: none
  int64_t block_columns;
};

void CopyRows(const float* from, int64_t from_step, int64_t rows, int64_t columns, int64_t to_step,
              float* to) {
  const int64_t padded = PaddedColumns(columns);
  for (int64_t row = 0; row < rows; ++row, from += from_step, to += to_step) {
    std::copy_n(from, columns, to);
    std::fill(to + columns, to + padded, 0.0f);
  }
}

// Fills `to` [rows, columns] from a matrix whose columns are contiguous, through tiles of one cache
// line per row on both sides; the padding of rows is zero.
void TransposeRows(const float* from, int64_t from_step, int64_t rows, int64_t columns,
                   int64_t to_step, float* to) {
  constexpr int64_t kTile = 16;
  const int64_t padded = PaddedColumns(columns);
  float tile[kTile][kTile] = {};
  for (int64_t begin = 0; begin < rows; begin += kTile) {
    const int64_t end = std::min(rows, begin + kTile);
    for (int64_t first = 0; first < columns; first += kTile) {
      const int64_t count = std::min(kTile, columns - first);
      for (int64_t j = 0; j < count; ++j)
        std::copy_n(from + (first + j) * from_step + begin, end - begin, tile[j]);
      for (int64_t i = begin; i < end; ++i) {
        float* row = to + i * to_step + first;
        for (int64_t j = 0; j < count; ++j) row[j] = tile[j][i - begin];
      }
    }
    for (int64_t i = begin; i < end; ++i)
      std::fill(to + i * to_step + columns, to + i * to_step + padded, 0.0f);
  }
}

// A copy of B with contiguous rows, 64 terms of one block of columns after the other.
class CopiedB {
 public:
  CopiedB(const Product& product, const Context& context)
      : step_(RowStep(product.block_columns)),
        depth_blocks_(Blocks(product.depth, kDepth)),
        rows_(context, Size(product)) {
    const int64_t column_blocks = Blocks(product.columns, product.block_columns);
    ParallelFor(context, column_blocks * depth_blocks_, [&](int64_t piece) {
      Copy(product, piece / depth_blocks_, piece % depth_blocks_, step_,
           rows_.data() + piece * kDepth * step_);
    });
  }

  const float* At(int64_t column_block, int64_t depth_block) const {
    return rows_.data() + (column_block * depth_blocks_ + depth_block) * kDepth * step_;
  }

  static void Copy(const Product& product, int64_t column_block, int64_t depth_block, int64_t step,
                   float* to) {
    const int64_t column = column_block * product.block_columns, first = depth_block * kDepth;
    const int64_t rows = std::min(kDepth, product.depth - first),
                  columns = std::min(product.block_columns, product.columns - column);
    const auto& [data, row_step, column_step] = product.b;
    const float* from = data + first * row_step + column * column_step;
    if (column_step == 1) return CopyRows(from, row_step, rows, columns, step, to);
    TransposeRows(from, column_step, rows, columns, step, to);
  }

 private:
  static int64_t Size(const Product& product) {
    return Blocks(product.columns, product.block_columns) * Blocks(product.depth, kDepth) * kDepth *
           RowStep(product.block_columns);
  }

  int64_t step_, depth_blocks_;
  Scratch<float> rows_;
};

// One task: up to kBlockRows rows, any number of columns.
class Task {
 public:
  Task(const Product& product, const CopiedB* shared, const Context& context)
      : p_(product),
        shared_(shared),
        transposed_(product.a.column_step != 1),
        in_place_(!transposed_ && product.a.row_step <= kMostInPlace),
        a_step_(transposed_ ? RowStep(product.rows) : kDepth),
        a_rows_(context, in_place_
                             ? 1
                             : std::min(kCopiedDepth, Blocks(product.depth, kDepth) * kDepth) *
                                   (transposed_ ? a_step_ : product.rows)),
        b_step_(RowStep(product.block_columns)),
        b_rows_(context, shared == nullptr ? kDepth * b_step_ : 1),
        edge_(context, product.rows * kWidestVector) {}

  void Run() {
    for (int64_t first = 0; first < p_.depth; first += kCopiedDepth) {
      const int64_t last = std::min(p_.depth, first + kCopiedDepth);
      for (int64_t depth = first; !in_place_ && depth < last; depth += kDepth) CopyA(depth, first);
      for (int64_t column = 0; column < p_.columns; column += p_.block_columns) {
        if (p_.bias != nullptr && first == 0) FillBias(column);
        for (int64_t depth = first; depth < last; depth += kDepth)
          Multiply(column, depth, depth - first);
      }
    }
  }

 private:
  float* CopiedA(int64_t offset) const {
    return a_rows_.data() + offset * (transposed_ ? a_step_ : p_.rows);
  }

  void CopyA(int64_t depth, int64_t first) const {
    const float* from = p_.a.data + depth * p_.a.column_step;
    const int64_t count = std::min(kDepth, p_.depth - depth);
    float* to = CopiedA(depth - first);
    if (transposed_) return CopyRows(from, p_.a.column_step, count, p_.rows, a_step_, to);
    for (int64_t row = 0; row < p_.rows; ++row)
      std::copy_n(from + row * p_.a.row_step, count, to + row * kDepth);
  }

  int64_t Columns(int64_t column) const { return std::min(p_.block_columns, p_.columns - column); }

  void FillBias(int64_t column) const {
    for (int64_t row = 0; row < p_.rows; ++row)
      std::copy_n(p_.bias + column, Columns(column), p_.c + row * p_.c_step + column);
  }

  void Multiply(int64_t column, int64_t depth, int64_t copied) const {
    const int64_t column_block = column / p_.block_columns, depth_block = depth / kDepth;
    if (shared_ == nullptr) CopiedB::Copy(p_, column_block, depth_block, b_step_, b_rows_.data());
    const float* b = shared_ == nullptr ? b_rows_.data() : shared_->At(column_block, depth_block);
    const Operand a = in_place_     ? Operand{p_.a.data + depth, p_.a.row_step, 1}
                      : transposed_ ? Operand{CopiedA(copied), 1, a_step_}
                                    : Operand{CopiedA(copied), a_step_, 1};
    const int64_t count = std::min(kDepth, p_.depth - depth), columns = Columns(column);
    const bool add = p_.add || p_.bias != nullptr || depth > 0;
    const ResultMode mode = add ? ResultMode::kAdd : ResultMode::kStore;
    // Whole vectors of C are written in place, the rest of a row through a buffer.
    const int64_t whole = columns / kWidestVector * kWidestVector, rest = columns - whole;
    float* c = p_.c + column;
    if (whole > 0) HWY_DYNAMIC_DISPATCH(MultiplyOnTarget)
    (a, b, b_step_, p_.rows, whole, count, {c, p_.c_step, mode});
    if (rest == 0) return;
    HWY_DYNAMIC_DISPATCH(MultiplyOnTarget)
    (a, b + whole, b_step_, p_.rows, rest, count,
     {edge_.data(), kWidestVector, ResultMode::kStore});
    for (int64_t row = 0; row < p_.rows; ++row) {
      float* to = c + row * p_.c_step + whole;
      const float* from = edge_.data() + row * kWidestVector;
      for (int64_t j = 0; j < rest; ++j) to[j] = add ? to[j] + from[j] : from[j];
    }
  }

  const Product& p_;
  const CopiedB* shared_;
  bool transposed_;  // A's columns are contiguous: copied in that order
  bool in_place_;    // A is not copied
  int64_t a_step_;
  Scratch<float> a_rows_;
  int64_t b_step_;
  Scratch<float> b_rows_, edge_;
};

bool IsShared(const Product& all) { return all.depth * all.columns <= kMostShared; }

// Each task computes one block of rows, with all columns.
void ByRows(const Product& all, int64_t block_rows, const Context& context) {
  std::optional<CopiedB> shared;
  if (IsShared(all)) shared.emplace(all, context);
  ParallelForBlocks(context, all.rows, block_rows, [&](int64_t begin, int64_t end) {
    Product rows = all;
    rows.a.data += begin * all.a.row_step;
    rows.c += begin * all.c_step;
    rows.rows = end - begin;
    Task(rows, shared ? &*shared : nullptr, context).Run();
  });
}

// For few rows: blocks of columns and pieces of the depth are tasks too; pieces are computed
// separately and added in their order.
void InPieces(const Product& all, int64_t block_rows, const Context& context) {
  const int64_t row_blocks = Blocks(all.rows, block_rows),
                column_blocks = Blocks(all.columns, all.block_columns),
                blocks = row_blocks * column_blocks;
  const int64_t wanted = blocks < kFewBlocks ? 2 * kFewBlocks / blocks : 1,
                most = std::clamp<int64_t>(all.depth / kLeastPiece, 1, wanted);
  const int64_t piece_depth = BlockLength(all.depth, Blocks(all.depth, most), kDepth),
                pieces = Blocks(all.depth, piece_depth);
  const int64_t partial = all.rows * all.columns;
  const Scratch<float> partials(context, pieces > 1 ? pieces * partial : 1);
  ParallelFor(context, pieces * blocks, [&](int64_t task) {
    const int64_t piece = task / blocks, row = task / column_blocks % row_blocks * block_rows,
                  column = task % column_blocks * all.block_columns, first = piece * piece_depth;
    Product part = all;
    if (pieces > 1) {
      part.c = partials.data() + piece * partial;
      part.c_step = all.columns;
      part.add = false;
      part.bias = nullptr;
    }
    part.a.data += row * all.a.row_step + first * all.a.column_step;
    part.b.data += first * all.b.row_step + column * all.b.column_step;
    part.c += row * part.c_step + column;
    if (part.bias != nullptr) part.bias += column;
    part.rows = std::min(block_rows, all.rows - row);
    part.columns = std::min(all.block_columns, all.columns - column);
    part.depth = std::min(piece_depth, all.depth - first);
    Task(part, nullptr, context).Run();
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

// A few rows times the transpose of a matrix whose rows are contiguous.
void ByDots(const Product& all, const Context& context) {
  const int64_t grain = std::max<int64_t>(4, kTaskElements / all.depth / 4 * 4);
  ParallelForBlocks(context, all.columns, grain, [&](int64_t begin, int64_t end) {
    const Scratch<float> dots(context, end - begin);
    for (int64_t row = 0; row < all.rows; ++row) {
      HWY_DYNAMIC_DISPATCH(DotRowsOnTarget)
      (all.a.data + row * all.a.row_step, all.b.data + begin * all.b.column_step, all.b.column_step,
       end - begin, all.depth, dots.data());
      float* to = all.c + row * all.c_step;
      for (int64_t j = begin; j < end; ++j)
        to[j] = (all.add ? to[j] : all.bias != nullptr ? all.bias[j] : 0) + dots[j - begin];
    }
  });
}

}  // namespace

void Matmul(const MatmulArguments& arguments, const Context& context) {
  const auto& [a, b, c, add, bias] = arguments;
  Product all{.a = {a.Data<float>(), a.stride(0), a.stride(1)},
              .b = {b.Data<float>(), b.stride(0), b.stride(1)},
              .c = c.Data<float>(),
              .c_step = c.stride(0),
              .rows = c.size(0),
              .columns = c.size(1),
              .depth = a.size(1),
              .add = add,
              .bias = bias.empty() ? nullptr : bias.Data<float>(),
              .block_columns = BlockLength(c.size(1), kBlockColumns, kWidestVector)};
  if (all.rows <= kFewRows && all.a.column_step == 1 && all.b.row_step == 1)
    return ByDots(all, context);
  const int64_t most = all.rows >= kFewBlocks * kBlockRows ? kBlockRows : kBlockRows / 2;
  const int64_t block_rows = BlockLength(all.rows, most, 6);
  const bool by_rows = Blocks(all.rows, block_rows) >= kFewBlocks;
  // Every task copies what it needs of a B that is not shared: transposed, it is turned first,
  // once. It holds weights, which are small compared with what they multiply.
  const bool turn = all.b.column_step != 1 && !(by_rows && IsShared(all));
  const int64_t step = RowStep(all.columns);
  const Scratch<float> turned(context, turn ? all.depth * step : 1);
  if (turn) {
    ParallelForBlocks(context, all.depth, kDepth, [&](int64_t begin, int64_t end) {
      TransposeRows(all.b.data + begin, all.b.column_step, end - begin, all.columns, step,
                    turned.data() + begin * step);
    });
    all.b = {turned.data(), step, 1};
  }
  if (by_rows) {
    ByRows(all, block_rows, context);
  } else {
    InPieces(all, BlockLength(all.rows, kBlockRows, 6), context);
  }
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
