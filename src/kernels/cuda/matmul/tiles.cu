#include "kernels/cuda/matmul/tiles.h"

#include <algorithm>

#include "kernels/cuda/matmul/bf16.cuh"
#include "kernels/cuda/matmul/f32.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {
namespace tiles {
namespace {

constexpr char kName[] = "matmul";
// A sum is cut into pieces of at least kLeastPiece terms if there would be fewer thread blocks than
// this, two for each multiprocessor of a large GPU. It is the same number on every GPU, so that
// sums are.
constexpr int64_t kWantedBlocks = 264, kLeastPiece = 256;

int64_t Blocks(int64_t total, int64_t length) { return (total + length - 1) / length; }

// Terms of each piece: a multiple of what the kernels load at a time.
int64_t PieceOf(const MatrixProduct& p) {
  const int64_t blocks = Blocks(p.rows, kBlockSide) * Blocks(p.columns, kBlockSide);
  const int64_t pieces =
      std::max<int64_t>(1, std::min(kWantedBlocks / blocks, p.depth / kLeastPiece));
  return std::max<int64_t>(1, Blocks(Blocks(p.depth, pieces), kTile)) * kTile;
}

// Adds the pieces of each sum in their order.
template <class In, class Out>
__global__ void __launch_bounds__(kBlockThreads)
    AddPiecesKernel(const float* pieces, int64_t count, const Result<In, Out> to) {
  const int64_t elements = to.rows * to.columns;
  for (int64_t i = int64_t{blockIdx.x} * kBlockThreads + threadIdx.x; i < elements;
       i += int64_t{gridDim.x} * kBlockThreads) {
    float sum[1] = {pieces[i]};
    for (int64_t piece = 1; piece < count; ++piece) sum[0] += pieces[piece * elements + i];
    StoreSums(to, i / to.columns, i % to.columns, sum);
  }
}

template <class In, class Out>
Result<In, Out> ResultOf(const MatrixProduct& p) {
  Result<In, Out> to{.data = static_cast<Out*>(p.c),
                     .row = p.c_row,
                     .rows = p.rows,
                     .columns = p.columns,
                     .bias = static_cast<const In*>(p.bias),
                     .addend = static_cast<const Out*>(p.addend)};
  to.aligned = to.row % 4 == 0 && AreAligned(4 * sizeof(Out), {to.data, to.addend}) &&
               AreAligned(4 * sizeof(In), {to.bias});
  return to;
}

template <class In, class Out>
void Multiply(const MatrixProduct& p, const Context& context, cudaStream_t stream) {
  const Lines<In> a{static_cast<const In*>(p.a.data), p.a.row, p.a.column, p.rows},
      b{static_cast<const In*>(p.b.data), p.b.column, p.b.row, p.columns};
  const int64_t piece = PieceOf(p), pieces = std::max<int64_t>(1, Blocks(p.depth, piece));
  const dim3 blocks(
      static_cast<unsigned>(Blocks(p.rows, kBlockSide) * Blocks(p.columns, kBlockSide)),
      static_cast<unsigned>(pieces));
  const Result<In, Out> to = ResultOf<In, Out>(p);
  if (pieces == 1) {
    Launch(TiledProduct<In, Out>{a, b, p.depth, piece, to}, blocks, stream);
    return Check(kName);
  }
  const DeviceScratch<float> sums(context, pieces * p.rows * p.columns);
  const Result<In, float> to_sums{.data = sums.data(),
                                  .row = p.columns,
                                  .rows = p.rows,
                                  .columns = p.columns,
                                  .bias = nullptr,
                                  .addend = nullptr,
                                  .aligned = p.columns % 4 == 0};
  Launch(TiledProduct<In, float>{a, b, p.depth, piece, to_sums}, blocks, stream);
  Check(kName);
  AddPiecesKernel<<<BlocksFor(p.rows * p.columns, kBlockThreads), kBlockThreads, 0, stream>>>(
      sums.data(), pieces, to);
  Check(kName);
}

}  // namespace
}  // namespace tiles

void MultiplyInTiles(const MatrixProduct& p, const Context& context) {
  const cudaStream_t stream = StreamOf(context);
  if (p.type == DataType::kF32) return tiles::Multiply<float, float>(p, context, stream);
  if (p.result_type == DataType::kF32) return tiles::Multiply<BF16, float>(p, context, stream);
  tiles::Multiply<BF16, BF16>(p, context, stream);
}

}  // namespace favor::kernels::cuda
