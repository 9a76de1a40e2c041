// The option of kinds that look at near keys.
#ifndef FAVOR_ATTENTION_WINDOW_H_
#define FAVOR_ATTENTION_WINDOW_H_

#include "attention/kind.h"

namespace favor::attention {

inline constexpr AttentionOptionInfo kWindowOption = {
    .name = "window",
    .help = "Largest distance between a query and the keys that it sees as near",
    .least = 0,
    .most = int64_t{1} << 40,
    .standard = 128};

// The window of these options, for a kind whose first option it is.
int64_t WindowOf(const Kind& kind, const AttentionOptions& options);

// Gives the problem its window; throws kInvalidData unless there are as many keys as queries.
void SetWindow(int64_t window, Call& call);

// Pairs of a query and a key within the window.
double PairsInWindow(int64_t window, int64_t length, bool causal);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_WINDOW_H_
