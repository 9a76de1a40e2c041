// Matrix products: blocks of C, each with one owner, by the tile products of simd/gemm, of packed
// operands (packed.h); A is read in place if its rows are short.
#include "kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <numeric>
#include <variant>

#include "core/parallel.h"
#include "core/scratch.h"
#include "hwy/highway.h"
#include "kernels/cpu/packed.h"
#include "kernels/cpu/ranges.h"
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

// C is computed in blocks of this many rows and columns, which stay in the L2 cache with what of A
// and B they read (192·256 floats: 192 KiB).
constexpr int64_t kBlockRows = 192, kBlockColumns = 256;
// A is read in place if its rows are contiguous, or if its columns are, lie close together and do
// not compete for the same sets of the cache, which repeat after 1024 elements.
constexpr int64_t kMostInPlace = 400, kRepeat = 1024, kFewestSets = 8;
// A task takes all columns of its rows if there are at least kFewBlocks blocks of rows, half as
// long if need be; a sum is cut among tasks if there are fewer blocks in all and the pieces keep at
// least kLeastPiece terms.
constexpr int64_t kFewBlocks = 8, kLeastPiece = 512;
// Operands are packed for all tasks, at most this many elements at a time.
constexpr int64_t kMostPacked = int64_t{1} << 19;
// A task packs this many terms of its rows of A at a time; they serve all columns.
constexpr int64_t kPackedDepth = 2 * kDepth;

int64_t Blocks(int64_t total, int64_t length) { return (total + length - 1) / length; }
// A block length that is a multiple of whole tiles and makes blocks about equally long.
int64_t BlockLength(int64_t total, int64_t most, int64_t multiple) {
  return Blocks(Blocks(total, Blocks(total, most)), multiple) * multiple;
}
// The largest multiple of `multiple` up to `most`, but not 0.
int64_t LargestMultiple(int64_t most, int64_t multiple) {
  return std::max(most / multiple, int64_t{1}) * multiple;
}

// The operation that follows the product.
struct Epilogue {
  const MatmulEpilogue& then;
  const float* c;  // all of C

  bool empty() const { return std::holds_alternative<std::monostate>(then); }
  // Runs it on `count` elements of C from `from` on.
  void Run(const float* from, int64_t count) const {
    const int64_t begin = from - c, end = begin + count;
    if (const auto* f = std::get_if<ActivationArguments>(&then)) ActivateRange(*f, begin, end);
    if (const auto* g = std::get_if<ActivationGradients>(&then))
      ActivateBackwardRange(*g, begin, end);
    if (const auto* d = std::get_if<DropoutArguments>(&then)) DropoutRange(*d, begin, end);
  }
};

// Some rows, columns or terms of the sum; the count may reach beyond the end.
struct Span {
  int64_t begin, count;
};

// C[rows, columns] = or += A·B over `depth` terms.
struct Product {
  Matrix a, b;
  float* c;
  int64_t c_step;
  int64_t rows, columns, depth;
  bool add;
  bool last;          // C is complete afterwards
  const float* bias;  // null: none

  // The terms before those of the part are in C by then.
  Product Part(const Span& of_rows, const Span& of_columns, const Span& terms) const {
    const int64_t count = std::min(terms.count, depth - terms.begin);
    return {.a = a.At(of_rows.begin, terms.begin),
            .b = b.At(terms.begin, of_columns.begin),
            .c = c + of_rows.begin * c_step + of_columns.begin,
            .c_step = c_step,
            .rows = std::min(of_rows.count, rows - of_rows.begin),
            .columns = std::min(of_columns.count, columns - of_columns.begin),
            .depth = count,
            .add = add || terms.begin > 0,
            .last = last && terms.begin + count == depth,
            .bias = bias == nullptr || terms.begin > 0 ? nullptr : bias + of_columns.begin};
  }
  bool ReadsAInPlace() const {
    return a.column_step <= kMostInPlace &&
           std::gcd(a.column_step, kRepeat) <= kRepeat / kFewestSets;
  }
};

// Up to kDepth terms of one panel of C.
void MultiplyPanel(const Product& p, const Operand& a, const float* b, float* edge) {
  const int64_t whole = p.columns / kWidestVector * kWidestVector, rest = p.columns - whole;
  // Whole vectors of C are written in place, the rest of a row through a buffer.
  if (whole > 0) {
    HWY_DYNAMIC_DISPATCH(MultiplyOnTarget)
    (a, b, PackedB::kPanel, p.rows, whole, p.depth,
     {.data = p.c,
      .step = p.c_step,
      .mode = p.add ? ResultMode::kAdd : ResultMode::kStore,
      .bias = p.bias});
  }
  if (rest == 0) return;
  HWY_DYNAMIC_DISPATCH(MultiplyOnTarget)
  (a, b + whole, PackedB::kPanel, p.rows, rest, p.depth, {.data = edge, .step = kWidestVector});
  for (int64_t row = 0; row < p.rows; ++row) {
    float* to = p.c + row * p.c_step + whole;
    const float* from = edge + row * kWidestVector;
    for (int64_t j = 0; j < rest; ++j)
      to[j] = (p.add ? to[j] : p.bias != nullptr ? p.bias[whole + j] : 0) + from[j];
  }
}

// The first row, column and term of a block, counted in what was packed.
struct Place {
  int64_t row, column, depth;
};

// `a` is null if A is read in place.
void MultiplyBlock(const Product& block, const PackedA* a, const PackedB& b, const Place& place,
                   const Epilogue& epilogue, const Context& context) {
  const Scratch<float> edge(context, block.rows * kWidestVector);
  for (int64_t depth = 0; depth < block.depth; depth += kDepth) {
    for (int64_t column = 0; column < block.columns; column += PackedB::kPanel) {
      const Product panel = block.Part({0, block.rows}, {column, PackedB::kPanel}, {depth, kDepth});
      const Operand rows = a == nullptr
                               ? Operand{panel.a.data, panel.a.row_step, panel.a.column_step}
                               : a->At(place.row, place.depth + depth);
      MultiplyPanel(panel, rows, b.At(place.column + column, place.depth + depth), edge.data());
    }
  }
  if (!block.last || epilogue.empty()) return;
  for (int64_t row = 0; row < block.rows; ++row)
    epilogue.Run(block.c + row * block.c_step, block.columns);
}

// A task of ByRows: a block of rows, with all columns that are packed.
void MultiplyRows(const Product& rows, const PackedB& b, const Epilogue& epilogue,
                  const Context& context) {
  const bool in_place = rows.ReadsAInPlace();
  const int64_t chunk = in_place ? rows.depth : std::min(kPackedDepth, rows.depth);
  PackedA a(in_place ? 0 : rows.rows, chunk, context);
  for (int64_t first = 0; first < rows.depth; first += chunk) {
    a.StartAt(first);
    if (!in_place) a.Fill(rows.a, std::min(rows.depth, first + chunk), 0, rows.rows);
    for (int64_t column = 0; column < rows.columns; column += kBlockColumns) {
      MultiplyBlock(rows.Part({0, rows.rows}, {column, kBlockColumns}, {first, chunk}),
                    in_place ? nullptr : &a, b, {0, column, first}, epilogue, context);
    }
  }
}

// Each task computes one block of rows, with all columns. B is packed for all of them, in parts if
// it is large: its longer side is cut.
void ByRows(const Product& all, int64_t block_rows, const Epilogue& epilogue,
            const Context& context) {
  int64_t depth = all.depth, columns = all.columns;
  if (depth * columns > kMostPacked && columns >= depth)
    columns = LargestMultiple(kMostPacked / depth, kBlockColumns);
  if (depth * columns > kMostPacked) depth = LargestMultiple(kMostPacked / columns, kPackedDepth);
  PackedB b(std::min(depth, all.depth), std::min(columns, all.columns), context);
  for (int64_t column = 0; column < all.columns; column += columns) {
    for (int64_t first = 0; first < all.depth; first += depth) {
      const Product part = all.Part({0, all.rows}, {column, columns}, {first, depth});
      ParallelFor(context, PackedB::Pieces(part.depth),
                  [&](int64_t piece) { b.Fill(part.b, part.depth, part.columns, piece); });
      ParallelFor(context, Blocks(all.rows, block_rows), [&](int64_t block) {
        MultiplyRows(
            part.Part({block * block_rows, block_rows}, {0, part.columns}, {0, part.depth}), b,
            epilogue, context);
      });
    }
  }
}

// C = the partial sums, added in their order.
void AddPartials(const Product& all, const float* partials, int64_t pieces,
                 const Epilogue& epilogue, const Context& context) {
  const int64_t columns = all.columns,
                rows = std::max<int64_t>(1, 65536 / (columns * std::max<int64_t>(1, pieces)));
  ParallelForBlocks(context, all.rows, rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = all.c + row * all.c_step;
      for (int64_t j = 0; j < columns && !all.add; ++j)
        to[j] = all.bias != nullptr ? all.bias[j] : 0;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const float* from = partials + (piece * all.rows + row) * columns;
        for (int64_t j = 0; j < columns; ++j) to[j] += from[j];
      }
      epilogue.Run(to, columns);
    }
  });
}

// For few rows: blocks of columns and pieces of the depth are tasks too. Both operands are packed
// for all of them, a chunk of the depth at a time; pieces have sums of their own.
void InPieces(const Product& all, int64_t block_rows, const Epilogue& epilogue,
              const Context& context) {
  const int64_t row_blocks = Blocks(all.rows, block_rows),
                block_columns = BlockLength(all.columns, kBlockColumns, PackedB::kPanel),
                column_blocks = Blocks(all.columns, block_columns),
                blocks = row_blocks * column_blocks;
  const int64_t wanted = blocks < kFewBlocks ? 2 * kFewBlocks / blocks : 1,
                chunk = std::min(all.depth,
                                 LargestMultiple(kMostPacked / (all.rows + all.columns), kDepth)),
                most = std::clamp<int64_t>(chunk / kLeastPiece, 1, wanted),
                piece_depth = BlockLength(chunk, Blocks(chunk, most), kDepth),
                pieces = Blocks(chunk, piece_depth);
  const Scratch<float> partials(context, pieces > 1 ? pieces * all.rows * all.columns : 1);
  const bool in_place = all.ReadsAInPlace();
  PackedA a(in_place ? 0 : all.rows, chunk, context);
  PackedB b(chunk, all.columns, context);
  for (int64_t first = 0; first < all.depth; first += chunk) {
    const Product part = all.Part({0, all.rows}, {0, all.columns}, {first, chunk});
    const int64_t of_a = in_place ? 0 : row_blocks;
    ParallelFor(context, of_a + PackedB::Pieces(part.depth), [&](int64_t piece) {
      if (piece >= of_a) return b.Fill(part.b, part.depth, part.columns, piece - of_a);
      const int64_t row = piece * block_rows;
      a.Fill(part.a, part.depth, row, std::min(part.rows, row + block_rows));
    });
    ParallelFor(context, pieces * blocks, [&](int64_t task) {
      const int64_t piece = task / blocks;
      const Place place{.row = task / column_blocks % row_blocks * block_rows,
                        .column = task % column_blocks * block_columns,
                        .depth = piece * piece_depth};
      if (place.depth >= part.depth) return;  // the last chunk is shorter
      Product block = part.Part({place.row, block_rows}, {place.column, block_columns},
                                {place.depth, piece_depth});
      if (pieces > 1) {
        block.c = partials.data() + (piece * all.rows + place.row) * all.columns + place.column;
        block.c_step = all.columns;
        block.add = first > 0;
        block.last = false;
        block.bias = nullptr;
      }
      MultiplyBlock(block, in_place ? nullptr : &a, b, place, epilogue, context);
    });
  }
  if (pieces > 1) AddPartials(all, partials.data(), pieces, epilogue, context);
}

// A few rows times the transpose of a matrix whose rows are contiguous.
void ByDots(const Product& all, const Epilogue& epilogue, const Context& context) {
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
      epilogue.Run(to + begin, end - begin);
    }
  });
}

}  // namespace

void Matmul(const MatmulArguments& arguments, const Context& context) {
  const auto& [a, b, c, add, bias, then] = arguments;
  const Product all{.a = {a.Data<float>(), a.stride(0), a.stride(1)},
                    .b = {b.Data<float>(), b.stride(0), b.stride(1)},
                    .c = c.Data<float>(),
                    .c_step = c.stride(0),
                    .rows = c.size(0),
                    .columns = c.size(1),
                    .depth = a.size(1),
                    .add = add,
                    .last = true,
                    .bias = bias.empty() ? nullptr : bias.Data<float>()};
  const Epilogue epilogue{then, all.c};
  if (all.rows == 0 || all.columns == 0) return;
  if (all.depth == 0) return AddPartials(all, nullptr, 0, epilogue, context);  // empty sums
  if (all.rows <= kFewRows && all.a.column_step == 1 && all.b.row_step == 1)
    return ByDots(all, epilogue, context);
  if (all.rows >= kFewBlocks * kBlockRows / 2) {
    // A multiple of kFewBlocks blocks: threads finish together.
    const int64_t blocks = Blocks(Blocks(all.rows, kBlockRows), kFewBlocks) * kFewBlocks;
    ByRows(all, Blocks(Blocks(all.rows, blocks), kTileRows) * kTileRows, epilogue, context);
  } else {
    InPieces(all, BlockLength(all.rows, kBlockRows, kTileRows), epilogue, context);
  }
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
