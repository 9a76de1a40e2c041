#include "kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {

void Zero(const ZeroArguments& a, const Context& context) {
  constexpr int64_t kBytes = 1 << 16;  // bytes of one task
  auto* to = static_cast<std::byte*>(a.y.data());
  ParallelForBlocks(context, a.y.shape().Elements() * ItemBytes(a.y.type()), kBytes,
                    [&](int64_t begin, int64_t end) {
                      std::memset(to + begin, 0, static_cast<size_t>(end - begin));
                    });
}

void Copy(const CopyArguments& a, const Context& context) {
  const int64_t leading = a.to.size(0),
                columns = a.to.shape().Elements() / std::max<int64_t>(leading, 1);
  ParallelForBlocks(context, leading, RowsOfTask(columns), [&](int64_t begin, int64_t end) {
    favor::Copy(a.from.Range(0, begin, end - begin), a.to.Range(0, begin, end - begin));
  });
}

}  // namespace favor::kernels::cpu
