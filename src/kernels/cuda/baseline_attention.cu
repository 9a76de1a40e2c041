// Attention of a token to itself alone: copies of rows.
#include "kernels/baseline_attention.h"

#include "kernels/cuda/linear/call.cuh"
#include "kernels/cuda/parts/elements.cuh"

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

template <class Kernel>
void Launch(Kernel* kernel, const Copies& copies, const Context& context) {
  if (copies.elements == 0) return;
  kernel<<<BlocksFor(copies.elements, kThreads), kThreads, 0, StreamOf(context)>>>(copies);
  Check(kName);
}

}  // namespace

void IdentityAttention(const AttentionArguments& a, const Context& context) {
  Copies copies = CopiesTo(a.problem, a.out, a.tally);
  copies.from = ArrayOf(a.problem.v);
  Launch(ForwardKernel, copies, context);
}

void IdentityAttentionBackward(const AttentionGradients& a, const Context& context) {
  for (const View& unread : {a.grad_q, a.grad_k}) {
    if (!unread.empty()) Launch(ZeroKernel, CopiesTo(a.problem, unread, a.tally), context);
  }
  Copies copies = CopiesTo(a.problem, a.grad_v, a.tally);
  copies.from = ArrayOf(a.grad_out);
  Launch(BackwardKernel, copies, context);
}

}  // namespace favor::kernels::cuda
