#include "kernels/rows.h"

#include <cstring>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {
namespace {

int64_t RowBytes(const ConstView& rows) { return rows.size(1) * ItemBytes(rows.type()); }

const std::byte* Row(const ConstView& rows, int64_t row) {
  return static_cast<const std::byte*>(rows.data()) + row * RowBytes(rows);
}
std::byte* Row(const View& rows, int64_t row) {
  return static_cast<std::byte*>(rows.data()) + row * RowBytes(rows);
}

}  // namespace

void GatherRows(const GatherArguments& a, const Context& context) {
  const auto bytes = static_cast<size_t>(RowBytes(a.to));
  ParallelForBlocks(context, a.to.size(0), RowsOfTask(a.to.size(1)),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i)
                        std::memcpy(Row(a.to, i), Row(a.from, a.places[i]), bytes);
                    });
}

void ScatterRows(const ScatterArguments& a, const Context& context) {
  const auto bytes = static_cast<size_t>(RowBytes(a.from));
  ParallelForBlocks(context, a.from.size(0), RowsOfTask(a.from.size(1)),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i)
                        std::memcpy(Row(a.to, a.places[i]), Row(a.from, i), bytes);
                    });
}

}  // namespace favor::kernels::cpu
