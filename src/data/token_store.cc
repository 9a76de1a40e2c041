#include "data/token_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
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

double SplitSummary::ShareBeyond(int64_t most) const {
  int64_t beyond = 0;
  for (const auto& [length, count] : lengths) beyond += count * std::max<int64_t>(0, length - most);
  return tokens == 0 ? 0 : static_cast<double>(beyond) / static_cast<double>(tokens);
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

int64_t StoredSplit::RecordTokens(int64_t index) const {
  const auto begin = index == 0 ? 0 : static_cast<int64_t>(ends.At(index - 1));
  return static_cast<int64_t>(ends.At(index)) - begin;
}

std::vector<int32_t> StoredSplit::Record(int64_t index, int64_t first, int64_t most) const {
  const auto begin = index == 0 ? 0 : static_cast<int64_t>(ends.At(index - 1));
  const int64_t have = static_cast<int64_t>(ends.At(index)) - begin - first;
  std::vector<int32_t> record(static_cast<size_t>(std::clamp<int64_t>(have, 0, most)));
  tokens.Read(begin + first, record);
  return record;
}

std::vector<uint32_t> StoredSplit::TokenLabels(int64_t index, int64_t most) const {
  const auto begin = index == 0 ? 0 : static_cast<int64_t>(ends.At(index - 1));
  std::vector<int32_t> numbers(static_cast<size_t>(std::min(most, RecordTokens(index))));
  labels.Read(begin, numbers);
  std::vector<uint32_t> found;
  for (const int32_t number : numbers) found.push_back(std::bit_cast<uint32_t>(number));
  return found;
}

StreamWriter::StreamWriter(int64_t vocab)
    : tokens_(ItemBytes(vocab)), counts_(static_cast<size_t>(vocab)) {}

void StreamWriter::Append(std::span<const int32_t> tokens, bool follows) {
  if (tokens.empty()) return;
  tokens_.Append(tokens);
  for (const int32_t token : tokens) ++counts_[static_cast<size_t>(token)];
  if (follows && !run_ends_.empty()) run_ends_.pop_back();
  run_ends_.push_back(tokens_.size());
}

StoredSplit StreamWriter::Finish() {
  StoredSplit split{.tokens = tokens_.Finish(), .run_ends = std::move(run_ends_)};
  int64_t begin = 0;
  for (const int64_t end : split.run_ends) {
    ++split.summary.lengths[end - begin];
    begin = end;
  }
  split.summary.records = std::ssize(split.run_ends);
  split.summary.tokens = split.tokens.size();
  return split;
}

RecordWriter::RecordWriter(std::optional<int32_t> end) : end_(end) {
  // Only tokens that are stored count: begin, hidden and padding never are.
  const int item_bytes = ItemBytes(int64_t{end.value_or(0)} + 1);
  for (int i = 0; i < kSplits; ++i) parts_.push_back(std::make_unique<Part>(item_bytes));
}

// Appends tokens to one split; `last`: their record ends with them.
void RecordWriter::Append(Split split, std::span<const uint8_t> tokens, bool last) {
  Part& part = *parts_[static_cast<size_t>(split)];
  part.tokens.Append(tokens);
  if (end_ && last) part.tokens.Append(static_cast<uint64_t>(*end_));
  part.ends.Append(static_cast<uint64_t>(part.tokens.size()));
  if (split == Split::kTrain) {
    for (const uint8_t token : tokens) ++train_counts_[token];
    train_ends_ += last || !end_ ? 1 : 0;
  }
  hasher_.Add(std::as_bytes(tokens));
  hasher_.Add(static_cast<uint64_t>(split));
  ++part.summary.records;
  part.summary.tokens += static_cast<int64_t>(tokens.size());
  ++part.summary.lengths[static_cast<int64_t>(tokens.size())];
}

void RecordWriter::Add(Split split, std::span<const uint8_t> tokens,
                       std::span<const uint32_t> labels) {
  ++records_;
  content_.Add(std::as_bytes(tokens));
  Append(split, tokens, /*last=*/true);
  if (labels.empty()) return;
  content_.Add(std::as_bytes(labels));
  hasher_.Add(std::as_bytes(labels));
  for (const uint32_t label : labels)
    parts_[static_cast<size_t>(split)]->labels.Append(uint64_t{label});
}

void RecordWriter::Add(const Division& division, std::span<const uint8_t> tokens) {
  ++records_;
  content_.Add(std::as_bytes(tokens));
  for (size_t begin = 0; begin < tokens.size();) {
    const Division::Run run = division.At(place_);
    const size_t count = std::min(tokens.size() - begin, static_cast<size_t>(run.end - place_));
    const bool last = begin + count == tokens.size();
    Append(run.split, tokens.subspan(begin, count), last);
    Part& part = *parts_[static_cast<size_t>(run.split)];
    if (open_ == run.split) part.run_ends.pop_back();
    part.run_ends.push_back(part.tokens.size());
    open_ = run.split;
    begin += count;
    place_ += static_cast<int64_t>(count) + (end_ && last ? 1 : 0);
  }
}

StoredSplits RecordWriter::Finish() {
  StoredSplits splits;
  for (size_t i = 0; i < splits.size(); ++i) {
    splits[i] = {.tokens = parts_[i]->tokens.Finish(),
                 .ends = parts_[i]->ends.Finish(),
                 .run_ends = parts_[i]->run_ends,
                 .labels = parts_[i]->labels.Finish(),
                 .summary = parts_[i]->summary};
  }
  return splits;
}

std::string RecordWriter::Content() const {
  return fmt::format("{} records, {:016x}", records_, content_.Value());
}

std::string RecordWriter::Fingerprint() const {
  return fmt::format("{} records, {:016x}", records_, hasher_.Value());
}

std::vector<int64_t> RecordWriter::TrainCounts(const Vocabulary& vocabulary) const {
  std::vector<int64_t> counts(static_cast<size_t>(vocabulary.size()));
  std::copy_n(train_counts_.begin(),
              std::min(train_counts_.size(), static_cast<size_t>(vocabulary.ordinary())),
              counts.begin());
  if (const auto end = vocabulary.special().end) counts[static_cast<size_t>(*end)] = train_ends_;
  return counts;
}

}  // namespace data
}  // namespace favor
