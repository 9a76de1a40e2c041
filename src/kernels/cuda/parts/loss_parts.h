// Losses on a GPU: each block of a kernel sums the rows it scored, and a last kernel adds these
// parts to the tally in their order.
#ifndef FAVOR_KERNELS_CUDA_PARTS_LOSS_PARTS_H_
#define FAVOR_KERNELS_CUDA_PARTS_LOSS_PARTS_H_

#include <cstdint>

#include "core/tally.h"
#include "favor/context.h"

namespace favor::kernels::cuda {

struct LossPart {
  double loss, correct;
};
constexpr int64_t kMostLossParts = 8192;

// `count` parts, of `targets` rows in total.
void AddLossParts(const char* operation, const LossPart* parts, int64_t count, int64_t targets,
                  TallyEntry* tally, const Context& context);

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_LOSS_PARTS_H_
