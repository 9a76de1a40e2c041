// The rows of an embedding on a GPU in the order of the entries of the table that they take.
#ifndef FAVOR_KERNELS_CUDA_PARTS_SORT_ROWS_H_
#define FAVOR_KERNELS_CUDA_PARTS_SORT_ROWS_H_

#include <cstdint>

#include "favor/context.h"
#include "kernels/embedding.h"

namespace favor::kernels::cuda {

// Queues filling both arrays, [count], in memory of the device; rows of an entry keep their order.
struct SortedRows {
  int32_t *entries, *rows;
};
void SortRows(const TableRows& rows, int64_t count, int64_t entries, const SortedRows& sorted,
              const Context& context);

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_SORT_ROWS_H_
