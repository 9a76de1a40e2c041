#include "core/tally.h"

#include <cstddef>
#include <cstring>
#include <mutex>
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
  const int64_t bytes = BytesOf(entries_, std::ssize(floats));
  internal::Runtime& runtime = internal::Inside(context_);
  internal::HostMemory& host = runtime.read_back;
  const std::lock_guard lock(host.mutex);
  if (host.bytes < bytes) {
    host.bytes = 0;  // in case the allocation fails
    host.memory = AllocateForCopies(context_.device(), bytes);
    host.bytes = bytes;
  }
  const std::byte* read = host.memory.get();
  ReadBack(host.memory.get(), memory_.data(), bytes, context_.device(), runtime.stream);
  std::vector<TallyEntry> entries(static_cast<size_t>(entries_));
  std::memcpy(entries.data(), read, entries.size() * sizeof(TallyEntry));
  if (!floats.empty()) std::memcpy(floats.data(), read + EndOf(entries_), floats.size_bytes());
  return entries;
}

}  // namespace favor
