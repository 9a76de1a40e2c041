// Attention to the union of two sets of keys, from the sums over each: one normaliser for both.
#ifndef FAVOR_KERNELS_COMBINE_PARTS_H_
#define FAVOR_KERNELS_COMBINE_PARTS_H_

#include "kernels/attention_problem.h"
#include "kernels/backend.h"

namespace favor::kernels {

struct CombineArguments {
  AttentionArguments call;  // its problem says how many rows there are; out and log_sum are written
  SumParts first, second;
  double least_denominator = 0;  // rows with a smaller sum have none
};

// Sums that own their memory.
class PartTensors {
 public:
  explicit PartTensors(const AttentionProblem& problem)
      : log_scale_({problem.Groups(), problem.query_length}, DataType::kF64),
        numerator_({problem.Groups(), problem.query_length, problem.value_dim}, DataType::kF64),
        denominator_(log_scale_.shape(), DataType::kF64) {}

  SumParts views() { return {log_scale_, numerator_, denominator_}; }
  // Those of queries begin … begin + count − 1.
  SumParts Rows(int64_t begin, int64_t count) {
    return {log_scale_.view().Range(1, begin, count), numerator_.view().Range(1, begin, count),
            denominator_.view().Range(1, begin, count)};
  }

 private:
  Tensor log_scale_, numerator_, denominator_;
};

namespace cpu {  // results of either type
void CombineParts(const CombineArguments& a, const Context& context);
}

inline void CombineParts(const CombineArguments& a, const Context& context) {
  Run<CombineArguments>(
      {.name = "combine parts", .reference = cpu::CombineParts, .cpu = cpu::CombineParts},
      a.call.out, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_COMBINE_PARTS_H_
