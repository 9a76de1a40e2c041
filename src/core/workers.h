// The worker threads of a context. Only the two files that start them and hand them work see
// oneTBB: its headers would otherwise be a third of what most kernels compile.
#ifndef FAVOR_CORE_WORKERS_H_
#define FAVOR_CORE_WORKERS_H_

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <optional>

namespace favor::internal {

struct Workers {
  explicit Workers(int threads);

  tbb::task_arena arena;
  // TBB starts at most as many workers as there are cores unless told otherwise. The number is the
  // same for all contexts, because TBB uses the smallest of those alive.
  std::optional<tbb::global_control> more_workers;
};

}  // namespace favor::internal

#endif  // FAVOR_CORE_WORKERS_H_
