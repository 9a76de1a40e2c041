#include "kernels/last_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace favor::kernels::cpu {

void KeepLastRows(const KeepLastRowsArguments& a, const Context&) {
  const int64_t batch = a.kept.size(0), most = a.kept.size(1), length = a.rows.size(0) / batch,
                added = std::min(most, length), item = ItemBytes(a.kept.type()),
                row_bytes = a.kept.size(2) * item;
  for (int64_t sequence = 0; sequence < batch; ++sequence) {
    auto* kept = static_cast<std::byte*>(a.kept.data()) + sequence * most * row_bytes;
    std::memmove(kept, kept + added * row_bytes, static_cast<size_t>((most - added) * row_bytes));
    for (int64_t i = 0; i < added; ++i) {
      const int64_t row = sequence * length + length - added + i;
      std::memcpy(kept + (most - added + i) * row_bytes,
                  static_cast<const std::byte*>(a.rows.data()) + row * a.rows.stride(0) * item,
                  static_cast<size_t>(row_bytes));
    }
  }
}

}  // namespace favor::kernels::cpu
