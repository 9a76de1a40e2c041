// What a trained model thinks of substitutions in a sequence of letters: the log-likelihood of the
// mutant less that of the wild type.
//
//   const auto wild_type = favor::ReadOneRecord(*favor::OpenRecordsFor(trained, "gfp.fasta"));
//   for (const favor::Variant& variant : favor::ParseVariants("A23G,K5R:L9P", trained, wild_type))
//     std::cout << favor::VariantEffects(trained, wild_type, {variant}, {}, context)[0] << '\n';
#ifndef FAVOR_MUTATIONS_H_
#define FAVOR_MUTATIONS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "favor/context.h"
#include "favor/likelihood.h"
#include "favor/records.h"
#include "favor/train.h"

namespace favor {

struct Substitution {
  int64_t place = 0;  // in the record's tokens, from 0
  int32_t to = 0;     // the token that comes there
};

// Substitutions at different places, made together.
struct Variant {
  std::string name;  // "A23G", "K5R:L9P"
  std::vector<Substitution> substitutions;
};

// The record of a reader that has one; throws kInvalidData if it has several. `name`, if not empty,
// is the one to take.
Record ReadOneRecord(RecordReader& reader, const std::string& name = "");

// Variants written as letter, position from 1, letter: "A23G", several at once as "A23G:K5R", and
// lists of them separated by commas. Throws kInvalidOption if a letter is not the wild type's, a
// position is not there or occurs twice, or for a model of text or pictures.
std::vector<Variant> ParseVariants(std::string_view text, const TrainedModel& trained,
                                   const Record& wild_type);

// Every substitution of one letter by another: of the 20 amino acids or the four bases, place by
// place.
std::vector<Variant> AllSubstitutions(const TrainedModel& trained, const Record& wild_type);

// For each variant, nats. Decoders: log p(mutant) − log p(wild type) of the whole record. Encoders:
// the places of the variant are hidden, and log p of the new letters less log p of the old ones is
// summed over them. `done`, if given, is called with the number of variants that are done. Throws
// kInvalidOption for places beyond what the options read of the record.
std::vector<double> VariantEffects(const TrainedModel& trained, const Record& wild_type,
                                   std::span<const Variant> variants,
                                   const LikelihoodOptions& options, const Context& context,
                                   const std::function<void(int64_t)>& done = {});

}  // namespace favor

#endif  // FAVOR_MUTATIONS_H_
