// The thread layer. Work is cut into pieces by the shape of the data, never by the number of
// threads, and partial results are merged in the order of the pieces: results have the same bits
// for any number of threads.
#ifndef FAVOR_CORE_PARALLEL_H_
#define FAVOR_CORE_PARALLEL_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "favor/context.h"

namespace favor {

namespace internal {

// Calls call(body, piece) for each piece in [0, pieces) on the threads of the context.
void OnThreads(const Context& context, int64_t pieces,
               void (*call)(const void* body, int64_t piece), const void* body);

}  // namespace internal

// Calls body(piece) once for each piece in [0, pieces), in any order. Pieces must not share
// outputs.
template <class Body>
void ParallelFor(const Context& context, int64_t pieces, const Body& body) {
  if (context.threads() == 1 || pieces <= 1) {
    for (int64_t piece = 0; piece < pieces; ++piece) body(piece);
    return;
  }
  internal::OnThreads(
      context, pieces,
      [](const void* of, int64_t piece) { (*static_cast<const Body*>(of))(piece); }, &body);
}

// Cuts [0, total) into pieces of `grain` (the last may be shorter) and calls body(begin, end).
template <class Body>
void ParallelForBlocks(const Context& context, int64_t total, int64_t grain, const Body& body) {
  ParallelFor(context, (total + grain - 1) / grain,
              [&](int64_t piece) { body(piece * grain, std::min(total, (piece + 1) * grain)); });
}

// Folds part(begin, end) over the blocks of [0, total), from left to right: merge(accumulated,
// next).
template <class Partial, class Part, class Merge>
Partial ParallelReduce(const Context& context, int64_t total, int64_t grain, Partial start,
                       const Part& part, const Merge& merge) {
  std::vector<Partial> partials(static_cast<size_t>((total + grain - 1) / grain));
  ParallelForBlocks(context, total, grain, [&](int64_t begin, int64_t end) {
    partials[static_cast<size_t>(begin / grain)] = part(begin, end);
  });
  for (const Partial& next : partials) merge(start, next);
  return start;
}

}  // namespace favor

#endif  // FAVOR_CORE_PARALLEL_H_
