#include "favor/mutations.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "core/error_text.h"
#include "core/split.h"
#include "inference/sequences.h"

namespace favor {
namespace {

using inference::Piece;
using inference::Sequences;

void CheckLetters(const TrainedModel& trained) {
  const std::string_view name = trained.vocabulary->name();
  if (name != Name(Alphabet::kProtein) && name != Name(Alphabet::kDna)) {
    Throw(ErrorCode::kInvalidOption, "mutations", "given for a model of {}, expected FASTA", name);
  }
}

// "A23G": the letters and the number between them.
struct Written {
  int32_t from, to;
  int64_t position = 0;
};

std::optional<int32_t> TokenOf(char letter, const Vocabulary& vocabulary) {
  const auto upper = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  for (int32_t token = 0; token < vocabulary.ordinary(); ++token) {
    if (vocabulary.Show(token)[0] == upper) return token;
  }
  return std::nullopt;
}

std::optional<Written> Parse(std::string_view text, const Vocabulary& vocabulary) {
  if (text.size() < 3) return std::nullopt;
  const auto from = TokenOf(text.front(), vocabulary), to = TokenOf(text.back(), vocabulary);
  if (!from || !to) return std::nullopt;
  Written written{.from = *from, .to = *to};
  const std::string_view number = text.substr(1, text.size() - 2);
  const auto parsed =
      std::from_chars(number.data(), number.data() + number.size(), written.position);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) return std::nullopt;
  return written;
}

Substitution ParseSubstitution(std::string_view text, const TrainedModel& trained,
                               const Record& wild_type) {
  const Vocabulary& vocabulary = *trained.vocabulary;
  const auto written = Parse(text, vocabulary);
  if (!written) {
    Throw(ErrorCode::kInvalidOption, "mutations",
          "given '{}', expected a letter of the alphabet, its position from 1, and another letter, "
          "as in A23G",
          Printable(text));
  }
  if (written->position < 1 || written->position > std::ssize(wild_type.tokens)) {
    Throw(ErrorCode::kInvalidOption, "mutations", "given '{}', but '{}' has the positions 1 to {}",
          Printable(text), Printable(wild_type.name), wild_type.tokens.size());
  }
  const int32_t there = wild_type.tokens[static_cast<size_t>(written->position - 1)];
  if (there != written->from) {
    Throw(ErrorCode::kInvalidOption, "mutations", "given '{}', but position {} of '{}' is {}",
          Printable(text), written->position, Printable(wild_type.name), vocabulary.Show(there));
  }
  if (there == written->to) {
    Throw(ErrorCode::kInvalidOption, "mutations", "given '{}', expected another letter",
          Printable(text));
  }
  return {written->position - 1, written->to};
}

// The wild type, then each mutant, made when it is its turn.
class Mutants : public RecordReader {
 public:
  Mutants(const Record& wild_type, std::span<const Variant> variants)
      : wild_type_(wild_type), variants_(variants) {}

  bool Next(Record& record) override {
    if (next_ > variants_.size()) return false;
    record = wild_type_;
    if (next_ > 0) {
      for (const Substitution& substitution : variants_[next_ - 1].substitutions)
        record.tokens[static_cast<size_t>(substitution.place)] = substitution.to;
    }
    ++next_;
    return true;
  }
  void Rewind() override { next_ = 0; }

 private:
  const Record& wild_type_;
  std::span<const Variant> variants_;
  size_t next_ = 0;  // 0: the wild type
};

std::vector<double> EffectsByDecoder(const TrainedModel& trained, const Record& wild_type,
                                     std::span<const Variant> variants,
                                     const LikelihoodOptions& options, const Context& context,
                                     const std::function<void(int64_t)>& done) {
  Mutants mutants(wild_type, variants);
  std::optional<double> base;
  std::vector<double> effects;
  Likelihoods(trained, mutants, options, context, [&](const Likelihood& likelihood) {
    if (!base) {
      base = likelihood.sum;
      return;
    }
    effects.push_back(likelihood.sum - *base);
    if (done) done(std::ssize(effects));
  });
  return effects;
}

// A piece with some of its tokens hidden. Variants at the same places share the pass over it.
struct Hidden {
  Piece piece;
  std::vector<int64_t> places;  // in the record
  bool operator<(const Hidden& other) const {
    return std::tie(piece.first, places) < std::tie(other.piece.first, other.places);
  }
};

class EncoderEffects {
 public:
  EncoderEffects(const TrainedModel& trained, const Record& wild_type,
                 const LikelihoodOptions& options, const Sequences& sequences)
      : trained_(trained),
        wild_type_(wild_type),
        sequences_(sequences),
        batch_(options.batch == 0 ? trained.config.training.batch : options.batch) {
    sequences.CutTargets(0, sequences.Targets(std::ssize(wild_type.tokens)), pieces_);
  }

  std::vector<double> Of(std::span<const Variant> variants, const Context& context,
                         const std::function<void(int64_t)>& done) {
    std::vector<double> effects(variants.size());
    // Variants of one batch of hidden pieces at a time, in their order.
    std::map<Hidden, size_t> rows;
    size_t first = 0;
    for (size_t i = 0; i <= variants.size(); ++i) {
      std::vector<Hidden> needed;
      if (i < variants.size()) needed = HiddenBy(variants[i]);
      if (i == variants.size() ||
          (!rows.empty() && std::ssize(rows) + std::ssize(needed) > batch_)) {
        Run(rows, context);
        for (size_t j = first; j < i; ++j) effects[j] = EffectOf(variants[j], rows);
        if (done) done(static_cast<int64_t>(i));
        rows.clear();
        first = i;
      }
      for (const Hidden& hidden : needed) rows.emplace(hidden, rows.size());
    }
    return effects;
  }

 private:
  std::vector<Hidden> HiddenBy(const Variant& variant) const {
    std::vector<Hidden> needed;
    for (const Piece& piece : pieces_) {
      Hidden hidden{.piece = piece};
      for (const Substitution& substitution : variant.substitutions) {
        if (substitution.place >= piece.first && substitution.place < piece.first + piece.count)
          hidden.places.push_back(substitution.place);
      }
      std::ranges::sort(hidden.places);
      if (!hidden.places.empty()) needed.push_back(std::move(hidden));
    }
    return needed;
  }

  // Sets logits_: [row][place] → logits of every token.
  void Run(const std::map<Hidden, size_t>& rows, const Context& context) {
    logits_.assign(rows.size(), {});
    if (rows.empty()) return;
    std::vector<const Hidden*> in_order(rows.size());
    int64_t longest = 0;
    for (const auto& [hidden, row] : rows) {
      in_order[row] = &hidden;
      longest = std::max(longest, hidden.piece.count);
    }
    Batch batch{.length = longest};
    for (const Hidden* hidden : in_order) {
      sequences_.AddTargets(wild_type_.tokens, hidden->piece, batch);
      for (const int64_t place : hidden->places) {
        batch.tokens[static_cast<size_t>((batch.batch - 1) * longest + place -
                                         hidden->piece.first)] =
            trained_.vocabulary->special().hidden;
      }
    }
    const Tensor logits = trained_.model.Logits(batch, context);
    const int64_t vocab = trained_.model.config().vocab;
    for (size_t row = 0; row < in_order.size(); ++row) {
      for (const int64_t place : in_order[row]->places) {
        const float* at =
            logits.Data<float>() +
            (static_cast<int64_t>(row) * longest + place - in_order[row]->piece.first) * vocab;
        logits_[row][place].assign(at, at + vocab);
      }
    }
  }

  // Differences of logits are differences of log p: the normaliser is the same.
  double EffectOf(const Variant& variant, const std::map<Hidden, size_t>& rows) const {
    double effect = 0;
    for (const Hidden& hidden : HiddenBy(variant)) {
      const auto& at = logits_[rows.at(hidden)];
      for (const Substitution& substitution : variant.substitutions) {
        if (!std::ranges::binary_search(hidden.places, substitution.place)) continue;
        const std::vector<float>& logits = at.at(substitution.place);
        const int32_t old = wild_type_.tokens[static_cast<size_t>(substitution.place)];
        effect += static_cast<double>(logits[static_cast<size_t>(substitution.to)]) -
                  static_cast<double>(logits[static_cast<size_t>(old)]);
      }
    }
    return effect;
  }

  const TrainedModel& trained_;
  const Record& wild_type_;
  const Sequences& sequences_;
  int64_t batch_;
  std::vector<Piece> pieces_;
  std::vector<std::map<int64_t, std::vector<float>>> logits_;
};

}  // namespace

Record ReadOneRecord(RecordReader& reader, const std::string& name) {
  std::optional<Record> found;
  reader.Rewind();
  for (Record record; reader.Next(record); record = {}) {
    if (!name.empty() && record.name != name) continue;
    if (found) {
      Throw(ErrorCode::kInvalidData, "record",
            "'{}' is not the only one{}, expected one (or the name of one)", Printable(found->name),
            name.empty() ? "" : " of its name");
    }
    found = std::move(record);
  }
  if (!found) Throw(ErrorCode::kInvalidData, "record", "there is none named '{}'", Printable(name));
  return *std::move(found);
}

std::vector<Variant> ParseVariants(std::string_view text, const TrainedModel& trained,
                                   const Record& wild_type) {
  CheckLetters(trained);
  std::vector<Variant> variants;
  for (const std::string_view name : SplitAt(text, ',')) {
    Variant variant{.name = std::string(name)};
    std::set<int64_t> places;
    for (const std::string_view one : SplitAt(name, ':')) {
      variant.substitutions.push_back(ParseSubstitution(one, trained, wild_type));
      if (!places.insert(variant.substitutions.back().place).second) {
        Throw(ErrorCode::kInvalidOption, "mutations",
              "given '{}', expected different positions in one variant", Printable(name));
      }
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

std::vector<Variant> AllSubstitutions(const TrainedModel& trained, const Record& wild_type) {
  CheckLetters(trained);
  const Vocabulary& vocabulary = *trained.vocabulary;
  // The first letters of an alphabet; those after them stand for several.
  const int32_t letters = vocabulary.name() == Name(Alphabet::kDna) ? 4 : 20;
  std::vector<Variant> variants;
  for (size_t place = 0; place < wild_type.tokens.size(); ++place) {
    for (int32_t to = 0; to < letters; ++to) {
      if (to == wild_type.tokens[place]) continue;
      variants.push_back({.name = fmt::format("{}{}{}", vocabulary.Show(wild_type.tokens[place]),
                                              place + 1, vocabulary.Show(to)),
                          .substitutions = {{static_cast<int64_t>(place), to}}});
    }
  }
  return variants;
}

std::vector<double> VariantEffects(const TrainedModel& trained, const Record& wild_type,
                                   std::span<const Variant> variants,
                                   const LikelihoodOptions& options, const Context& context,
                                   const std::function<void(int64_t)>& done) {
  inference::CheckPredictsTokens(trained);
  const Sequences sequences(trained, {.length = options.length, .layout = options.layout});
  const int64_t tokens = std::ssize(wild_type.tokens),
                read = sequences.TargetsInPieces(sequences.Targets(tokens));
  for (const Variant& variant : variants) {
    for (const Substitution& substitution : variant.substitutions) {
      if (substitution.place - sequences.PlaceOfTarget(0) >= read) {
        Throw(ErrorCode::kInvalidOption, "mutations",
              "'{}' lies beyond the length of {} that is read of '{}', which has {} letters, "
              "expected a greater length or the layout crop",
              Printable(variant.name), sequences.length(), Printable(wild_type.name), tokens);
      }
    }
  }
  if (sequences.causal())
    return EffectsByDecoder(trained, wild_type, variants, options, context, done);
  return EncoderEffects(trained, wild_type, options, sequences).Of(variants, context, done);
}

}  // namespace favor
