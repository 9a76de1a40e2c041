// Attention of a token to itself alone: copies of rows, in pieces of 16 bytes where every element
// of the result is one of the source.
#include "kernels/baseline_attention.h"

#include "kernels/cuda/linear/call.cuh"
#include "kernels/cuda/parts/row_packets.cuh"
#include "kernels/cuda/parts/row_vectors.cuh"

namespace favor::kernels::cuda {
namespace {

using general::Array;
using general::ArrayOf;

constexpr char kName[] = "identity attention";
constexpr int kThreads = 256;

struct Copies {
  Array from, to, mask;
  int64_t heads, sharing, length, columns, elements;  // heads of `to`
  TallyEntry* tally;
};

// What an element of [batch, heads, length, columns] is.
struct Place {
  __device__ Place(const Copies& a, int64_t element)
      : column(element % a.columns),
        row(element / a.columns % a.length),
        head(element / (a.columns * a.length) % a.heads),
        batch(element / (a.columns * a.length * a.heads)) {}

  int64_t column, row, head, batch;
};

__device__ bool Exists(const Copies& a, int64_t batch, int64_t kv_head, int64_t row) {
  return a.mask.data == nullptr || a.mask.Load(a.mask.At(batch, kv_head, row)) != 0;
}

// Each query head has the value of its row.
__global__ void __launch_bounds__(kThreads) ForwardKernel(const __grid_constant__ Copies a) {
  for (int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x; element < a.elements;
       element += int64_t{gridDim.x} * kThreads) {
    const Place at(a, element);
    const int64_t kv_head = at.head / a.sharing;
    const bool exists = Exists(a, at.batch, kv_head, at.row);
    const double value =
        exists ? a.from.Load(a.from.At(at.batch, kv_head, at.row) + at.column * a.from.column) : 0;
    a.to.Store(a.to.At(at.batch, at.head, at.row) + at.column * a.to.column, value);
    if (at.column == 0) general::AddToTally(&a.tally->empty, exists ? 0 : 1);
  }
}

// Each value has the gradients of the query heads that share it.
__global__ void __launch_bounds__(kThreads) BackwardKernel(const __grid_constant__ Copies a) {
  int unusable = 0;
  for (int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x; element < a.elements;
       element += int64_t{gridDim.x} * kThreads) {
    const Place at(a, element);
    double sum = 0;
    if (Exists(a, at.batch, at.head, at.row)) {
      for (int64_t head = at.head * a.sharing; head < (at.head + 1) * a.sharing; ++head)
        sum += a.from.Load(a.from.At(at.batch, head, at.row) + at.column * a.from.column);
    }
    sum = a.to.Store(a.to.At(at.batch, at.head, at.row) + at.column * a.to.column, sum);
    unusable += isfinite(sum) ? 0 : 1;
  }
  general::AddToTally(&a.tally->unusable, unusable);
}

__global__ void __launch_bounds__(kThreads) ZeroKernel(const __grid_constant__ Copies a) {
  for (int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x; element < a.elements;
       element += int64_t{gridDim.x} * kThreads) {
    const Place at(a, element);
    a.to.Store(a.to.At(at.batch, at.head, at.row) + at.column * a.to.column, 0);
  }
}

Copies CopiesTo(const AttentionProblem& problem, const View& to, TallyEntry* tally) {
  return {.from = {},
          .to = ArrayOf(to),
          .mask = ArrayOf(problem.mask),
          .heads = to.size(1),
          .sharing = problem.heads / problem.kv_heads,
          .length = to.size(2),
          .columns = to.size(3),
          .elements = to.shape().Elements(),
          .tally = tally};
}

// The number of elements in a word that are not finite.
__device__ int NotFinite(DataType type, uint32_t word) {
  const uint32_t exponent = type == DataType::kF32    ? 0x7f800000
                            : type == DataType::kBF16 ? 0x7f80
                                                      : 0x7c00;
  const auto is_unusable = [&](uint32_t bits) { return (bits & exponent) == exponent ? 1 : 0; };
  return is_unusable(word) + (type == DataType::kF32 ? 0 : is_unusable(word >> 16));
}

// Copies without a mask, or zeros without a source.
struct Pieces {
  Array from, to;
  general::RowOrder order;
  int64_t of_row;  // pieces of a row
  int bytes;       // of an element
  bool is_checked;
  TallyEntry* tally;

  __device__ uint4* At(const Array& array, int64_t piece) const {
    const int64_t row = Divide(piece, of_row).quotient;
    const general::RowPlace place(row, order);
    return reinterpret_cast<uint4*>(static_cast<char*>(array.data) +
                                    array.At(place.batch, place.head, place.index) * bytes) +
           (piece - row * of_row);
  }
};

__global__ void __launch_bounds__(kThreads) PiecesKernel(const __grid_constant__ Pieces a) {
  constexpr int kAtOnce = general::kRowsAtOnce;
  const int64_t pieces = a.order.rows * a.of_row;
  int unusable = 0;
  for (int64_t first = ThreadOfGrid(); first < pieces; first += kAtOnce * ThreadsOfGrid()) {
    uint4 held[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t piece = first + i * ThreadsOfGrid();
      if (a.from.data != nullptr && piece < pieces) held[i] = *a.At(a.from, piece);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t piece = first + i * ThreadsOfGrid();
      if (piece >= pieces) break;
      *a.At(a.to, piece) = held[i];
      for (const uint32_t word : {held[i].x, held[i].y, held[i].z, held[i].w})
        unusable += NotFinite(a.to.type, word);
    }
  }
  if (a.is_checked) general::AddToTally(&a.tally->unusable, unusable);
}

// Copies in pieces, or zeros without a source, if rows are made of them. `checked`: what is not
// finite is counted.
bool CopyInPieces(const AttentionProblem& problem, const ConstView& from, const View& to,
                  bool checked, TallyEntry* tally, const Context& context) {
  constexpr int64_t kPiece = sizeof(uint4);
  const bool copies = !from.empty();
  if (!general::HasVectors(to) ||
      (copies && (!general::HasVectors(from) || !problem.mask.empty() ||
                  problem.heads != problem.kv_heads || from.type() != to.type())))
    return false;
  const int bytes = to.type() == DataType::kF32 ? 4 : 2;
  const Pieces pieces{.from = ArrayOf(from),
                      .to = ArrayOf(to),
                      .order = general::RowOrder(to),
                      .of_row = to.size(3) * bytes / kPiece,
                      .bytes = bytes,
                      .is_checked = checked,
                      .tally = tally};
  const int64_t count = pieces.order.rows * pieces.of_row;
  if (count == 0) return true;
  PiecesKernel<<<BlocksFor(count, general::kRowsAtOnce * kThreads), kThreads, 0,
                 StreamOf(context)>>>(pieces);
  Check(kName);
  return true;
}

template <class Kernel>
void Launch(Kernel* kernel, const Copies& copies, const Context& context) {
  if (copies.elements == 0) return;
  kernel<<<BlocksFor(copies.elements, kThreads), kThreads, 0, StreamOf(context)>>>(copies);
  Check(kName);
}

}  // namespace

void IdentityAttention(const AttentionArguments& a, const Context& context) {
  if (CopyInPieces(a.problem, a.problem.v, a.out, /*checked=*/false, a.tally, context)) return;
  Copies copies = CopiesTo(a.problem, a.out, a.tally);
  copies.from = ArrayOf(a.problem.v);
  Launch(ForwardKernel, copies, context);
}

void IdentityAttentionBackward(const AttentionGradients& a, const Context& context) {
  for (const View& unread : {a.grad_q, a.grad_k}) {
    if (!unread.empty() &&
        !CopyInPieces(a.problem, {}, unread, /*checked=*/false, a.tally, context))
      Launch(ZeroKernel, CopiesTo(a.problem, unread, a.tally), context);
  }
  if (CopyInPieces(a.problem, a.grad_out, a.grad_v, /*checked=*/true, a.tally, context)) return;
  Copies copies = CopiesTo(a.problem, a.grad_v, a.tally);
  copies.from = ArrayOf(a.grad_out);
  Launch(BackwardKernel, copies, context);
}

}  // namespace favor::kernels::cuda
