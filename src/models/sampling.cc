#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error_text.h"
#include "core/parallel.h"
#include "favor/generate.h"
#include "favor/random.h"

namespace favor {
namespace {

// Tokens that may be chosen, the likeliest first.
std::vector<int32_t> Candidates(std::span<const float> logits, const SamplingOptions& options) {
  std::vector<int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::erase_if(tokens, [&](int32_t token) {
    return std::ranges::find(options.never, token) != options.never.end();
  });
  if (tokens.empty())
    Throw(ErrorCode::kInvalidOption, "sample", "given {} logits and no token that may be chosen",
          logits.size());
  for (const int32_t token : tokens) {
    if (!std::isfinite(logits[static_cast<size_t>(token)]))
      Throw(ErrorCode::kInvalidData, "sample", "the logit of token {} is not finite", token);
  }
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const auto all = static_cast<int64_t>(tokens.size());
  const int64_t kept = options.temperature == 0 ? 1
                       : options.top_k == 0     ? all
                                                : std::min(options.top_k, all);
  std::partial_sort(tokens.begin(), tokens.begin() + kept, tokens.end(), likelier);
  tokens.resize(static_cast<size_t>(kept));
  return tokens;
}

}  // namespace

void CheckSampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    Throw(ErrorCode::kInvalidOption, "temperature", "given {}, expected 0 or more",
          options.temperature);
  }
  if (options.top_k < 0)
    Throw(ErrorCode::kInvalidOption, "top_k", "given {}, expected 0 or more", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1))
    Throw(ErrorCode::kInvalidOption, "top_p", "given {}, expected above 0 and at most 1",
          options.top_p);
}

int32_t Sample(std::span<const float> logits, const SamplingOptions& options, uint64_t draw) {
  CheckSampling(options);
  const std::vector<int32_t> tokens = Candidates(logits, options);
  if (tokens.size() == 1) return tokens[0];
  // The largest exponent is 0: no overflow at any temperature.
  std::vector<double> weights;
  double sum = 0;
  for (const int32_t token : tokens) {
    const double difference = static_cast<double>(logits[static_cast<size_t>(token)]) -
                              static_cast<double>(logits[static_cast<size_t>(tokens[0])]);
    weights.push_back(std::exp(difference / options.temperature));
    sum += weights.back();
  }
  size_t count = weights.size();
  if (options.top_p < 1) {
    double reached = 0;
    for (count = 0; count < weights.size() && reached < options.top_p * sum; ++count)
      reached += weights[count];
    sum = reached;
  }
  const double place = RandomStream(options.seed, "sample").Uniform(draw) * sum;
  double reached = 0;
  for (size_t i = 0; i < count; ++i) {
    reached += weights[i];
    if (place < reached) return tokens[i];
  }
  return tokens[count - 1];
}

std::vector<int32_t> Prompt(const Vocabulary& vocabulary, std::optional<int32_t> start,
                            std::string_view text, const std::string& who) {
  std::vector<int32_t> tokens = vocabulary.Encode(text, who);
  if (start) tokens.insert(tokens.begin(), *start);
  return tokens;
}

namespace {

// How the tokens of samples are chosen.
class Chooser {
 public:
  // Throws unless the decoder can continue with tokens of the vocabulary.
  Chooser(const Decoder& decoder, const Vocabulary& vocabulary, const GenerateOptions& options)
      : sampling_(options.sampling),
        never_(sampling_.never.begin(), sampling_.never.end()),
        end_(vocabulary.special().end) {
    if (options.tokens > 0 && decoder.Logits().empty())
      Throw(ErrorCode::kInvalidOption, "generate",
            "nothing has been read, expected a prompt (Decoder::Read)");
    if (options.tokens > 0 && std::ssize(decoder.Logits()) != vocabulary.size())
      Throw(ErrorCode::kInvalidOption, "generate", "given a vocabulary of {} tokens, expected {}",
            vocabulary.size(), decoder.Logits().size());
    for (int64_t token = vocabulary.ordinary(); token < vocabulary.size(); ++token) {
      if (token != end_) never_.push_back(static_cast<int32_t>(token));
    }
    sampling_.never = never_;
  }
  Chooser(const Chooser&) = delete;
  Chooser& operator=(const Chooser&) = delete;

  // Token `index` of a sample.
  int32_t Choose(std::span<const float> logits, uint64_t sample, int64_t index) const {
    constexpr int kSampleShift = 40;  // the draws of one sample never reach those of the next
    return Sample(logits, sampling_, (sample << kSampleShift) + static_cast<uint64_t>(index));
  }
  bool Ends(int32_t token) const { return token == end_; }

 private:
  SamplingOptions sampling_;
  std::vector<int32_t> never_;
  std::optional<int32_t> end_;
};

}  // namespace

Generated Generate(Decoder& decoder, const Vocabulary& vocabulary, const GenerateOptions& options) {
  const Chooser chooser(decoder, vocabulary, options);
  Generated generated;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const int32_t token = chooser.Choose(decoder.Logits(), options.sample, i);
    generated.ended = chooser.Ends(token);
    if (generated.ended) break;
    generated.tokens.push_back(token);
    if (options.each) options.each(token);
    if (i + 1 < options.tokens) decoder.Read({&token, 1});
  }
  return generated;
}

std::vector<Generated> GenerateTogether(const Decoder& prefix, const Vocabulary& vocabulary,
                                        int64_t samples, const GenerateOptions& options) {
  const Chooser chooser(prefix, vocabulary, options);
  Decoder decoder = prefix.Fork(samples);
  std::vector<Generated> all(static_cast<size_t>(samples));
  std::vector<int32_t> next(all.size());  // a sample that has ended reads its end again
  for (int64_t i = 0; i < options.tokens; ++i) {
    ParallelFor(decoder.context(), samples, [&](int64_t sequence) {
      const auto at = static_cast<size_t>(sequence);
      if (!all[at].ended)
        next[at] = chooser.Choose(decoder.Logits(sequence),
                                  options.sample + static_cast<uint64_t>(sequence), i);
    });
    bool all_ended = true;
    for (size_t at = 0; at < all.size(); ++at) {
      all[at].ended = chooser.Ends(next[at]);
      if (!all[at].ended) all[at].tokens.push_back(next[at]);
      all_ended = all_ended && all[at].ended;
    }
    if (all_ended) break;
    if (i + 1 < options.tokens) decoder.ReadEach(next);
  }
  return all;
}

}  // namespace favor
