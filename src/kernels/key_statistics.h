// Constants of linear attention that come from the data of a call, in O(L): the mean of every
// head's keys, and the A of oprf that minimises the mean logarithm of its second moment over all
// pairs of a query and a key.
#ifndef FAVOR_KERNELS_KEY_STATISTICS_H_
#define FAVOR_KERNELS_KEY_STATISTICS_H_

#include "kernels/attention_problem.h"
#include "kernels/backend.h"

namespace favor::kernels {

// The best A from the mean ‖x + y‖² over queries x and keys y as the map sees them.
double OptimalOprfA(double mean_square_of_sum, int64_t dim);

struct KeyMeanArguments {
  const AttentionProblem& problem;
  View mean;  // f64 [batch, heads, dim], over keys that exist; 0 if none does
};
struct OprfArguments {
  const AttentionProblem& problem;
  ConstView key_mean;  // f64 [batch, heads, dim], subtracted from keys; empty: keys as they are
  View oprf_a;         // f64 [batch, heads]; unchanged if no key exists
};

namespace cpu {  // arrays of any type
void FindKeyMeans(const KeyMeanArguments& a, const Context& context);
void FindOprfA(const OprfArguments& a, const Context& context);
}  // namespace cpu
namespace cuda {
void FindKeyMeans(const KeyMeanArguments& a, const Context& context);
void FindOprfA(const OprfArguments& a, const Context& context);
}  // namespace cuda

inline void FindKeyMeans(const KeyMeanArguments& a, const Context& context) {
  RunOn<KeyMeanArguments>(a.mean.device(), /*reference=*/false,
                          {.name = "key means",
                           .reference = nullptr,
                           .cpu = cpu::FindKeyMeans,
                           .cuda = cuda::FindKeyMeans},
                          a, context);
}
inline void FindOprfA(const OprfArguments& a, const Context& context) {
  RunOn<OprfArguments>(
      a.oprf_a.device(), /*reference=*/false,
      {.name = "oprf", .reference = nullptr, .cpu = cpu::FindOprfA, .cuda = cuda::FindOprfA}, a,
      context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_KEY_STATISTICS_H_
