#include "data/token_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace favor {

int64_t SplitSummary::Shortest() const { return lengths.empty() ? 0 : lengths.begin()->first; }
int64_t SplitSummary::Longest() const { return lengths.empty() ? 0 : lengths.rbegin()->first; }

double SplitSummary::MeanLength() const {
  return records == 0 ? 0 : static_cast<double>(tokens) / static_cast<double>(records);
}

double SplitSummary::LengthDeviation() const {
  double sum = 0;
  for (const auto& [length, count] : lengths)
    sum += static_cast<double>(count) * std::pow(static_cast<double>(length) - MeanLength(), 2);
  return records == 0 ? 0 : std::sqrt(sum / static_cast<double>(records));
}

double SplitSummary::MedianLength() const {
  const auto ranked = [&](int64_t rank) {  // the length of record `rank` in order of length
    for (const auto& [length, count] : lengths) {
      if (rank < count) return length;
      rank -= count;
    }
    return int64_t{0};
  };
  return static_cast<double>(ranked((records - 1) / 2) + ranked(records / 2)) / 2;
}

double SplitSummary::TokensPerWord() const {
  return words == 0 ? 0 : static_cast<double>(tokens) / static_cast<double>(words);
}

double SplitSummary::TokensPerCharacter() const {
  return characters == 0 ? 0 : static_cast<double>(tokens) / static_cast<double>(characters);
}

namespace data {
namespace {

template <class T>
void Widen(const std::vector<std::byte>& from, std::span<int32_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T item;
    std::memcpy(&item, from.data() + i * sizeof(T), sizeof(T));
    to[i] = static_cast<int32_t>(item);
  }
}

}  // namespace

void NumberFile::Read(int64_t first, std::span<int32_t> out) const {
  if (out.empty()) return;
  std::vector<std::byte> bytes(out.size() * static_cast<size_t>(item_bytes_));
  file_->ReadAt(first_byte_ + first * item_bytes_, bytes);
  if (item_bytes_ == 1) return Widen<uint8_t>(bytes, out);
  if (item_bytes_ == 2) return Widen<uint16_t>(bytes, out);
  Widen<int32_t>(bytes, out);
}

uint64_t NumberFile::At(int64_t index) const {
  uint64_t number = 0;
  file_->ReadAt(
      first_byte_ + index * item_bytes_,
      std::as_writable_bytes(std::span(&number, 1)).first(static_cast<size_t>(item_bytes_)));
  return number;
}

void NumberFileWriter::Append(std::span<const int32_t> numbers) {
  for (const int32_t number : numbers) Append(static_cast<uint64_t>(number));
}

void NumberFileWriter::Append(std::span<const uint8_t> numbers) {
  if (item_bytes_ > 1) {
    for (const uint8_t number : numbers) Append(uint64_t{number});
    return;
  }
  file_.Append(std::as_bytes(numbers));
  size_ += static_cast<int64_t>(numbers.size());
}

void NumberFileWriter::Append(uint64_t number) {
  file_.Append(std::as_bytes(std::span(&number, 1)).first(static_cast<size_t>(item_bytes_)));
  ++size_;
}

NumberFile NumberFileWriter::Finish() { return {file_.Finish(), item_bytes_, 0, size_}; }

int ItemBytes(int64_t count) { return count <= 256 ? 1 : count <= 65536 ? 2 : 4; }

std::vector<int32_t> StoredSplit::Record(int64_t index, int64_t most) const {
  const auto begin = index == 0 ? 0 : static_cast<int64_t>(ends.At(index - 1));
  const auto end = static_cast<int64_t>(ends.At(index));
  std::vector<int32_t> record(static_cast<size_t>(std::min(most, end - begin)));
  tokens.Read(begin, record);
  return record;
}

Split SplitOf(uint64_t hash, const DataFormat& format) {
  const double place = static_cast<double>(hash >> 11) * 0x1p-53;
  if (place < format.test) return Split::kTest;
  return place < format.test + format.valid ? Split::kValid : Split::kTrain;
}

RecordWriter::RecordWriter(std::optional<int32_t> end) : end_(end) {
  // Only what is stored counts: begin, hidden and padding never are.
  const int item_bytes = ItemBytes(int64_t{end.value_or(0)} + 1);
  for (int i = 0; i < kSplits; ++i) parts_.push_back(std::make_unique<Part>(item_bytes));
}

void RecordWriter::Add(Split split, std::span<const uint8_t> tokens) {
  Part& part = *parts_[static_cast<size_t>(split)];
  part.tokens.Append(tokens);
  if (end_) part.tokens.Append(static_cast<uint64_t>(*end_));
  part.ends.Append(static_cast<uint64_t>(part.tokens.size()));
  hasher_.Add(std::as_bytes(tokens));
  hasher_.Add(static_cast<uint64_t>(split));
  ++records_;
  ++part.summary.records;
  part.summary.tokens += static_cast<int64_t>(tokens.size());
  ++part.summary.lengths[static_cast<int64_t>(tokens.size())];
}

StoredSplits RecordWriter::Finish() {
  StoredSplits splits;
  for (size_t i = 0; i < splits.size(); ++i)
    splits[i] = {parts_[i]->tokens.Finish(), parts_[i]->ends.Finish(), parts_[i]->summary};
  return splits;
}

std::string RecordWriter::Fingerprint() const {
  return fmt::format("{} records, {:016x}", records_, hasher_.Value());
}

}  // namespace data
}  // namespace favor
