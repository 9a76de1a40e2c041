#include "kernels/rows.h"

#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {
namespace {

// Copies rows of `items` words: row places[i] of `from` to row i, or row i to row places[i].
template <bool kGather, class Word>
__global__ void __launch_bounds__(kElementThreads)
    RowsKernel(const Word* __restrict__ from, const int64_t* __restrict__ places, int64_t rows,
               int64_t items, Word* __restrict__ to) {
  ForEachRow(rows, [&](int64_t row) {
    const int64_t place = places[row];
    const Word* source = from + (kGather ? place : row) * items;
    Word* target = to + (kGather ? row : place) * items;
    ForEachItem(items, [&](int64_t item) { target[item] = source[item]; });
  });
}

template <bool kGather>
void CopyRows(const char* operation, const ConstView& from, const int64_t* places, int64_t rows,
              const View& to, const Context& context) {
  if (from.type() != to.type()) internal::ThrowWrongType(from.type(), to.type());
  const int64_t bytes = to.size(1) * ItemBytes(to.type());
  if (rows == 0 || bytes == 0) return;
  const auto copy = [&](auto word) {
    using Word = decltype(word);
    const int64_t items = bytes / static_cast<int64_t>(sizeof(Word));
    const dim3 block = BlockOverRows(items);
    RowsKernel<kGather><<<BlocksFor(rows, block.y), block, 0, StreamOf(context)>>>(
        static_cast<const Word*>(from.data()), places, rows, items, static_cast<Word*>(to.data()));
  };
  const auto in_words_of = [&](int64_t size) {
    return bytes % size == 0 && AreAligned(size, {from.data(), to.data()});
  };
  if (in_words_of(16)) {
    copy(uint4());
  } else if (in_words_of(4)) {
    copy(uint32_t());
  } else {
    copy(uint16_t());
  }
  Check(operation);
}

}  // namespace

void GatherRows(const GatherArguments& a, const Context& context) {
  CopyRows<true>("gather", a.from, a.places, a.to.size(0), a.to, context);
}

void ScatterRows(const ScatterArguments& a, const Context& context) {
  CopyRows<false>("scatter", a.from, a.places, a.from.size(0), a.to, context);
}

}  // namespace favor::kernels::cuda
