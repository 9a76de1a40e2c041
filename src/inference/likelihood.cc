#include "favor/likelihood.h"

#include <cmath>
#include <limits>

#include "core/error_text.h"
#include "inference/sequences.h"

namespace favor {
namespace {

using inference::Piece;
using inference::Sequences;

// One pass over a piece: decoders have one, encoders one for each set of hidden tokens.
struct PassOf {
  size_t piece = 0;
  int64_t hidden = 0;  // encoders: the first hidden token; every so many more follow
};

struct PieceLikelihood {
  double sum = 0;
  std::vector<double> log_likelihoods;  // of each target, if wanted
};

int64_t PassesOf(const Piece& piece, bool causal, int64_t every) {
  if (causal) return 1;
  return every == 0 ? piece.count : std::min(every, piece.count);
}

// What files hold if their tokens are of this vocabulary.
DataKind KindOf(const Vocabulary& vocabulary) {
  if (vocabulary.name() == "pixels") return DataKind::kPictures;
  return vocabulary.special().begin ? DataKind::kFasta : DataKind::kText;
}

Sequences SequencesOf(const TrainedModel& trained, const LikelihoodOptions& options) {
  inference::CheckPredictsTokens(trained);
  return {trained, {.length = options.length, .layout = options.layout}};
}

// Records that are read together, and what is found out about them.
class Group {
 public:
  Group(const TrainedModel& trained, const LikelihoodOptions& options, const Sequences& sequences)
      : trained_(trained),
        options_(options),
        sequences_(sequences),
        batch_(options.batch == 0 ? trained.config.training.batch : options.batch) {}

  bool Full() const { return std::ssize(passes_) >= inference::kBatchesAtOnce * batch_; }

  void Add(Record record) {
    const size_t before = pieces_.size();
    sequences_.CutTargets(std::ssize(records_), sequences_.Targets(std::ssize(record.tokens)),
                          pieces_);
    for (size_t i = before; i < pieces_.size(); ++i) {
      const int64_t passes = PassesOf(pieces_[i], sequences_.causal(), options_.every);
      for (int64_t pass = 0; pass < passes; ++pass) passes_.push_back({i, pass});
    }
    records_.push_back(std::move(record));
  }

  // Runs all passes, calls `visit` for each record, and is empty again.
  void Finish(const Context& context, const std::function<void(const Likelihood&)>& visit) {
    found_.assign(pieces_.size(), {});
    inference::ForEachBatch(
        passes_, batch_, [&](const PassOf& pass) { return pieces_[pass.piece].count; },
        [&](std::span<const PassOf> passes) { Run(passes, context); });
    Report(visit);
    records_.clear();
    pieces_.clear();
    passes_.clear();
  }

 private:
  void Run(std::span<const PassOf> passes, const Context& context) {
    // The longest comes first.
    Batch batch{.length = pieces_[passes.front().piece].count};
    for (const PassOf& pass : passes) {
      const Piece& piece = pieces_[pass.piece];
      sequences_.AddTargets(records_[static_cast<size_t>(piece.record)].tokens, piece, batch);
      if (!sequences_.causal()) Hide(piece, pass, batch);
    }
    const std::vector<double> losses = trained_.model.Losses(batch, context);
    for (size_t row = 0; row < passes.size(); ++row) {
      const Piece& piece = pieces_[passes[row].piece];
      PieceLikelihood& found = found_[passes[row].piece];
      if (options_.tokens) found.log_likelihoods.resize(static_cast<size_t>(piece.count));
      const size_t begin = row * static_cast<size_t>(batch.length);
      for (size_t i = 0; i < static_cast<size_t>(piece.count); ++i) {
        if (batch.targets[begin + i] == kNoTarget) continue;
        found.sum -= losses[begin + i];
        if (options_.tokens) found.log_likelihoods[i] = -losses[begin + i];
      }
    }
  }

  // Hides the tokens of one pass in the last row of a batch; they are its only targets.
  void Hide(const Piece& piece, const PassOf& pass, Batch& batch) const {
    const int64_t passes = PassesOf(piece, /*causal=*/false, options_.every);
    const auto begin = static_cast<size_t>((batch.batch - 1) * batch.length);
    for (int64_t i = 0; i < piece.count; ++i) {
      const size_t at = begin + static_cast<size_t>(i);
      if (i % passes == pass.hidden) {
        batch.tokens[at] = trained_.vocabulary->special().hidden;
      } else {
        batch.targets[at] = kNoTarget;
      }
    }
  }

  void Report(const std::function<void(const Likelihood&)>& visit) {
    size_t piece = 0;
    for (size_t i = 0; i < records_.size(); ++i) {
      Likelihood likelihood{.record = std::move(records_[i])};
      for (; piece < pieces_.size() && pieces_[piece].record == static_cast<int64_t>(i); ++piece) {
        const Piece& part = pieces_[piece];
        likelihood.targets += part.count;
        likelihood.sum += found_[piece].sum;
        if (!options_.tokens) continue;
        for (int64_t t = 0; t < part.count; ++t)
          likelihood.places.push_back(sequences_.PlaceOfTarget(part.first + t));
        const std::vector<double>& each = found_[piece].log_likelihoods;
        likelihood.log_likelihoods.insert(likelihood.log_likelihoods.end(), each.begin(),
                                          each.end());
      }
      visit(likelihood);
    }
  }

  const TrainedModel& trained_;
  const LikelihoodOptions& options_;
  const Sequences& sequences_;
  int64_t batch_;
  std::vector<Record> records_;
  std::vector<Piece> pieces_;  // in the order of records
  std::vector<PassOf> passes_;
  std::vector<PieceLikelihood> found_;  // by piece
};

}  // namespace

double Likelihood::Perplexity() const {
  if (targets == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::exp(-sum / static_cast<double>(targets));
}

std::unique_ptr<RecordReader> OpenRecordsFor(const TrainedModel& trained, const std::string& source,
                                             int64_t window) {
  if (trained.config.data.starts_with("task:")) {
    Throw(ErrorCode::kInvalidOption, Printable(trained.path),
          "was trained on a generated task, expected a model of files");
  }
  RecordOptions options{.format = trained.config.format, .window = window};
  options.format.kind = KindOf(*trained.vocabulary);
  auto reader = OpenRecords(source, options);
  if (!trained.shape.empty() && reader->Shape() != trained.shape) {
    Throw(ErrorCode::kInvalidData, Printable(source),
          "holds pictures of {} (height, width, channels), but the model was trained on {}",
          reader->Shape(), trained.shape);
  }
  return reader;
}

LikelihoodWork CountWork(const TrainedModel& trained, RecordReader& reader,
                         const LikelihoodOptions& options) {
  const Sequences sequences = SequencesOf(trained, options);
  LikelihoodWork work;
  std::vector<Piece> pieces;
  reader.Rewind();
  for (Record record; reader.Next(record);) {
    const int64_t tokens = std::ssize(record.tokens);
    pieces.clear();
    const int64_t targets = sequences.Targets(tokens), read = sequences.TargetsInPieces(targets);
    sequences.CutTargets(0, targets, pieces);
    ++work.records;
    work.sequences += std::ssize(pieces);
    for (const Piece& piece : pieces)
      work.passes += PassesOf(piece, sequences.causal(), options.every);
    work.targets += read;
    work.left_out += targets - read;
    work.clipped += targets > read ? 1 : 0;
  }
  reader.Rewind();
  return work;
}

void Likelihoods(const TrainedModel& trained, RecordReader& reader,
                 const LikelihoodOptions& options, const Context& context,
                 const std::function<void(const Likelihood&)>& visit) {
  const Sequences sequences = SequencesOf(trained, options);
  inference::ReadInGroups(reader, Group(trained, options, sequences), context, visit);
}

Likelihood LikelihoodOf(const TrainedModel& trained, const Record& record,
                        const LikelihoodOptions& options, const Context& context) {
  const Sequences sequences = SequencesOf(trained, options);
  Group group(trained, options, sequences);
  group.Add(record);
  Likelihood found;
  group.Finish(context, [&](const Likelihood& likelihood) { found = likelihood; });
  return found;
}

}  // namespace favor
