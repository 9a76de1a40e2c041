#include "core/tally.h"

#include <type_traits>

#include "core/runtime.h"

namespace favor {
namespace {

static_assert(std::is_trivially_copyable_v<TallyEntry>, "entries are copied between devices");

constexpr auto kEntryBytes = static_cast<int64_t>(sizeof(TallyEntry));

}  // namespace

Tally::Tally(const Context& context, int64_t entries)
    : context_(context), entries_(entries), memory_(context, entries * kEntryBytes) {
  Clear();
}

TallyEntry* Tally::At(int64_t index) const {
  return reinterpret_cast<TallyEntry*>(memory_.data()) + index;
}

void Tally::Clear() {
  ZeroBytes(memory_.data(), entries_ * kEntryBytes, context_.device(),
            internal::Inside(context_).stream);
}

std::vector<TallyEntry> Tally::Read() const {
  std::vector<TallyEntry> entries(static_cast<size_t>(entries_));
  ReadBack(entries.data(), memory_.data(), entries_ * kEntryBytes, context_.device(),
           internal::Inside(context_).stream);
  return entries;
}

}  // namespace favor
