// How likely records are to a trained model: whole ones, and each of their tokens.
//
//   const favor::TrainedModel trained = favor::LoadTrained("run");
//   const auto reader = favor::OpenRecordsFor(trained, "mine.fasta");
//   favor::Likelihoods(trained, *reader, {}, context, [](const favor::Likelihood& likelihood) {
//     std::cout << likelihood.record.name << ' ' << likelihood.sum << '\n';
//   });
#ifndef FAVOR_LIKELIHOOD_H_
#define FAVOR_LIKELIHOOD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "favor/context.h"
#include "favor/records.h"
#include "favor/train.h"

namespace favor {

struct LikelihoodOptions {
  int64_t batch = 0;   // sequences at a time; 0: the run's
  int64_t length = 0;  // tokens of a sequence; 0: the run's
  // What happens to records beyond the length: kClip leaves the rest out, kCrop reads it in further
  // sequences, each of which begins without what came before. Default: as in the run's evaluation,
  // kCrop for text and joined records.
  std::optional<Layout> layout;
  // Encoders: tokens so far apart are hidden together, in so many passes over a sequence; 0: one
  // pass for each token.
  int64_t every = 0;
  bool tokens = false;  // also the figures of each token
};

struct Likelihood {
  Record record;
  int64_t targets = 0;        // number of tokens that were predicted
  double sum = 0;             // Σ log p, nats
  double Perplexity() const;  // e^(−sum / targets); NaN without targets

  // With LikelihoodOptions::tokens: log p of each target, and its place in record.tokens; the place
  // after the last stands for the end of the record.
  std::vector<int64_t> places;
  std::vector<double> log_likelihoods;
};

// The records of a source as the model reads them: as FASTA, text or pictures, whichever the model
// was trained on, whatever the names of the files. `window` > 0: text in windows of so many tokens
// instead of lines.
std::unique_ptr<RecordReader> OpenRecordsFor(const TrainedModel& trained, const std::string& source,
                                             int64_t window = 0);

// What there is to do, known after reading the records once; rewinds the reader, before and after.
struct LikelihoodWork {
  int64_t records = 0, targets = 0;
  int64_t sequences = 0;  // records, or pieces of them
  int64_t passes = 0;     // of one sequence each: more than sequences for encoders
  int64_t clipped = 0;    // records of which a part is left out
  int64_t left_out = 0;   // targets of these parts
};
LikelihoodWork CountWork(const TrainedModel& trained, RecordReader& reader,
                         const LikelihoodOptions& options);

// Calls `visit` for each record, in their order. Decoders predict each token from those before it;
// encoders from all others of its sequence, by hiding it: the sum is a pseudo-log-likelihood. Holds
// a few hundred sequences in memory at a time. Throws kInvalidOption for a classifier.
void Likelihoods(const TrainedModel& trained, RecordReader& reader,
                 const LikelihoodOptions& options, const Context& context,
                 const std::function<void(const Likelihood&)>& visit);

// The same for one record.
Likelihood LikelihoodOf(const TrainedModel& trained, const Record& record,
                        const LikelihoodOptions& options, const Context& context);

}  // namespace favor

#endif  // FAVOR_LIKELIHOOD_H_
