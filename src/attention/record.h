// The inside of an AttentionRecord: what a forward call leaves for its gradients.
#ifndef FAVOR_ATTENTION_RECORD_H_
#define FAVOR_ATTENTION_RECORD_H_

#include <vector>

#include "attention/linear_heads.h"
#include "attention/problem.h"
#include "favor/attention.h"
#include "kernels/prefix_state.h"

namespace favor {

struct AttentionRecord::Impl {
  // The call that was recorded; a backward call must be of the same kind.
  const attention::AttentionKind* kind = nullptr;
  Shape q, k, v;
  bool causal = false, renormalize = true;
  double scale = 0;
  bool centred = false, frozen_mean = false;
  uint64_t mask_hash = 0;

  std::vector<double> log_sum;  // [batch, heads, query length]; see kernels::OutputRows
  // Linear attention: constants of every batch entry and head, and the states of all keys where the
  // call was not causal.
  std::vector<attention::HeadConstants> heads;
  std::vector<kernels::PrefixState> states;
};

}  // namespace favor

#endif  // FAVOR_ATTENTION_RECORD_H_
