#include "core/parallel.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>

#include "core/plain_threads.h"
#include "core/runtime.h"
#include "core/workers.h"

namespace favor::internal {

void OnThreads(const Context& context, int64_t pieces,
               void (*call)(const void* body, int64_t piece), const void* body) {
#if FAVOR_PLAIN_THREADS
  OnPlainThreads(context.threads(), pieces, [&](int64_t piece) { call(body, piece); });
#else
  Inside(context).workers->arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, pieces, 1),
        [&](const tbb::blocked_range<int64_t>& range) {
          for (int64_t piece = range.begin(); piece < range.end(); ++piece) call(body, piece);
        },
        tbb::simple_partitioner());
  });
#endif
}

}  // namespace favor::internal
