// Sequences that are windows of a long stream: text, and records that follow each other. Training
// draws windows anywhere; evaluation reads them without overlap, in a fixed random order. No window
// reaches from one run of tokens into the next.
#include <algorithm>

#include "core/error_text.h"
#include "data/sources.h"
#include "favor/random.h"

namespace favor::data {
namespace {

// Tokens [begin, begin + tokens) of a part.
struct Stretch {
  const StoredSplit* part;
  int64_t begin, tokens;
};

std::vector<Stretch> RunsOf(const StoredSplit& part) {
  if (part.run_ends.empty()) return {{&part, 0, part.tokens.size()}};
  std::vector<Stretch> runs;
  int64_t begin = 0;
  for (const int64_t end : part.run_ends) {
    runs.push_back({&part, begin, end - begin});
    begin = end;
  }
  return runs;
}

class StreamData : public StoredData {
 public:
  explicit StreamData(Stored stored) : StoredData(std::move(stored)) {
    for (const StoredSplit& part : stored_.splits) runs_.push_back(RunsOf(part));
  }

  int64_t Length(int64_t asked) const override {
    const int64_t length = asked == 0 ? kDefaultLength : asked;
    int64_t longest = 0;
    for (const Stretch& run : TrainRuns()) longest = std::max(longest, run.tokens);
    if (longest < Window(length)) {
      Throw(ErrorCode::kInvalidOption, "length",
            "given {}, expected at most {}: the train split of '{}' has {} tokens in a row{}",
            length, std::max<int64_t>(0, longest - Window(0)), Printable(stored_.source), longest,
            Advice());
    }
    if (Sequences(Split::kValid, length) == 0) {
      Throw(ErrorCode::kInvalidData, Printable(stored_.source),
            "the valid split has no targets: it has {} tokens{}", Part(Split::kValid).tokens.size(),
            Advice());
    }
    return length;
  }

  Batch TrainBatch(const BatchRequest& request) const override {
    Length(CheckedRequest(request).length);
    const RandomStream stream =
        RandomStream(stored_.options.seed, "windows").Child(static_cast<uint64_t>(request.index));
    // Every place where a window may begin is as likely as any other.
    const int64_t window = Window(request.length);
    const auto places = [&](const Stretch& run) {
      return std::max<int64_t>(0, run.tokens - window + 1);
    };
    int64_t all = 0;
    for (const Stretch& run : TrainRuns()) all += places(run);
    std::vector<Stretch> windows;
    for (int64_t i = 0; i < request.batch; ++i) {
      auto place =
          static_cast<int64_t>(stream.Uniform(static_cast<uint64_t>(i)) * static_cast<double>(all));
      auto run = TrainRuns().begin();
      for (; place >= places(*run); ++run) place -= places(*run);
      windows.push_back({run->part, run->begin + place, window});
    }
    return Rows(Split::kTrain, windows, request);
  }

  int64_t Batches(Split split, int64_t batch, int64_t length) const override {
    return (Sequences(split, length) + batch - 1) / batch;
  }

  Batch EvalBatch(Split split, const BatchRequest& request) const override {
    const int64_t first = CheckedRequest(request).index * request.batch;
    const int64_t all = Sequences(split, request.length);
    std::vector<Stretch> windows;
    for (int64_t i = first; i < std::min(all, first + request.batch); ++i)
      windows.push_back(WindowAt(split, InOrder(split, i, all), request.length));
    return Rows(split, windows, request);
  }

 private:
  const std::vector<Stretch>& TrainRuns() const {
    return runs_[static_cast<size_t>(Split::kTrain)];
  }
  // Tokens that a sequence needs: one more if each predicts the next.
  int64_t Window(int64_t length) const { return length + (causal() ? 1 : 0); }
  // Windows of a run without overlap; the last may be shorter.
  int64_t WindowsOf(const Stretch& run, int64_t length) const {
    return (std::max<int64_t>(0, run.tokens - Window(0)) + length - 1) / length;
  }
  std::span<const std::vector<Stretch>> RunLists(Split split) const {
    if (split == Split::kAll) return runs_;
    return std::span(runs_).subspan(static_cast<size_t>(split), 1);
  }
  int64_t Sequences(Split split, int64_t length) const {
    int64_t count = 0;
    for (const std::vector<Stretch>& runs : RunLists(split))
      for (const Stretch& run : runs) count += WindowsOf(run, length);
    return count;
  }
  Stretch WindowAt(Split split, int64_t number, int64_t length) const {
    for (const std::vector<Stretch>& runs : RunLists(split)) {
      for (const Stretch& run : runs) {
        const int64_t count = WindowsOf(run, length);
        if (number < count) {
          const int64_t begin = number * length;
          return {run.part, run.begin + begin, std::min(Window(length), run.tokens - begin)};
        }
        number -= count;
      }
    }
    Throw(ErrorCode::kInvalidOption, "batch", "beyond the end of the {} split", Name(split));
  }
  std::string_view Advice() const {
    return stored_.split_by == SplitRule::kRecords ? " (few records: try split_by place or blocks)"
                                                   : "";
  }

  Batch Rows(Split split, const std::vector<Stretch>& windows, const BatchRequest& request) const {
    Batch batch{.batch = std::ssize(windows), .length = request.length};
    const auto length = static_cast<size_t>(request.length);
    const int32_t padding = stored_.vocabulary->special().padding;
    const bool padded = std::ranges::any_of(
        windows, [&](const Stretch& window) { return window.tokens < Window(request.length); });
    for (const Stretch& window : windows) {
      std::vector<int32_t> row(static_cast<size_t>(window.tokens));
      window.part->tokens.Read(window.begin, row);
      if (causal()) {
        batch.targets.insert(batch.targets.end(), row.begin() + 1, row.end());
        batch.targets.resize(batch.targets.size() + length + 1 - row.size(), kNoTarget);
        row.pop_back();
      } else if (padded) {
        batch.mask.insert(batch.mask.end(), row.size(), 1.0f);
        batch.mask.resize(batch.mask.size() + length - row.size(), 0.0f);
      }
      // No target sees the padding, which comes after all of them: causal batches need no mask.
      row.resize(length, padding);
      batch.tokens.insert(batch.tokens.end(), row.begin(), row.end());
    }
    if (!causal()) Mask(split, request, batch);
    return batch;
  }

  std::vector<std::vector<Stretch>> runs_;  // by part
};

}  // namespace

std::unique_ptr<Dataset> MakeStreamData(Stored stored) {
  return std::make_unique<StreamData>(std::move(stored));
}

}  // namespace favor::data
