#include "core/tally.h"

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "core/runtime.h"

namespace favor {
namespace {

static_assert(std::is_trivially_copyable_v<TallyEntry>, "entries are copied between devices");

constexpr auto kEntryBytes = static_cast<int64_t>(sizeof(TallyEntry));

// Where floats begin: kernels want arrays that are aligned.
int64_t EndOf(int64_t entries) {
  constexpr int64_t kAlignment = 64;
  return (entries * kEntryBytes + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t BytesOf(int64_t entries, int64_t floats) {
  return EndOf(entries) + floats * ItemBytes(DataType::kF32);
}

}  // namespace

Tally::Tally(const Context& context, int64_t entries, int64_t floats)
    : context_(context),
      entries_(entries),
      floats_(floats),
      memory_(context, BytesOf(entries, floats)) {
  Clear();
}

TallyEntry* Tally::At(int64_t index) const {
  return reinterpret_cast<TallyEntry*>(memory_.data()) + index;
}

View Tally::Floats() const {
  return {memory_.data() + EndOf(entries_), DataType::kF32, {floats_}, {1}, context_.device()};
}

void Tally::Clear() {
  ZeroBytes(memory_.data(), entries_ * kEntryBytes, context_.device(),
            internal::Inside(context_).stream);
}

std::vector<TallyEntry> Tally::Read(std::span<float> floats) const {
  std::vector<std::byte> bytes(static_cast<size_t>(BytesOf(entries_, std::ssize(floats))));
  ReadBack(bytes.data(), memory_.data(), std::ssize(bytes), context_.device(),
           internal::Inside(context_).stream);
  std::vector<TallyEntry> entries(static_cast<size_t>(entries_));
  std::memcpy(entries.data(), bytes.data(), entries.size() * sizeof(TallyEntry));
  if (!floats.empty())
    std::memcpy(floats.data(), bytes.data() + EndOf(entries_), floats.size_bytes());
  return entries;
}

}  // namespace favor
