// Models put to use: a context that grows token by token, and the choice of the next token.
//
//   favor::Decoder decoder(model, context);
//   decoder.Read(favor::Prompt(vocabulary, trained.start, "In the beginning"));
//   auto [tokens, ended] = favor::Generate(decoder, vocabulary, {.tokens = 100});
//   std::cout << vocabulary.Decode(tokens);
//
// With linear attention a token costs the same after a hundred others as after a million: all that
// is kept of them is a state of fixed size. Exact attention keeps every key and value.
#ifndef FAVOR_GENERATE_H_
#define FAVOR_GENERATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "favor/context.h"
#include "favor/model.h"
#include "favor/vocabulary.h"

namespace favor {

// It reads the model's weights and changes nothing there: several decoders of one model may be used
// from several threads at once, each with a context of its own. Where the weights change (by a
// Trainer, say), what was read before does not fit them any more: start anew.
class Decoder {
 public:
  // Model and context must outlive it. Throws kInvalidOption where the model does not predict the
  // next token.
  Decoder(const Model& model, const Context& context);
  Decoder(Model&&, const Context&) = delete;
  Decoder(const Model&, Context&&) = delete;
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Tokens that follow those read so far; many at once are read in chunks. Throws kInvalidData for
  // tokens outside of the vocabulary (the context is then what it was up to the chunk that failed),
  // and kInvalidOption where learned positions would end (nothing has been read then). Any other
  // error, such as numbers that leave their range in some layer, comes when the layers before it
  // have taken the chunk in: the context is lost then, and Read and Save throw kInvalidData until
  // Load gives it another.
  void Read(std::span<const int32_t> tokens);

  // Of the token that comes next, [vocab]; empty before the first Read.
  std::span<const float> Logits() const;
  int64_t tokens() const;      // read so far
  int64_t StateBytes() const;  // of what is kept of them

  Decoder Clone() const;  // to go on from one context in two ways

  // A safetensors file with the context and what model it belongs to, written atomically. Load
  // refuses a damaged file and one of another model.
  void Save(const std::string& path) const;
  void Load(const std::string& path);

 private:
  struct Impl;
  explicit Decoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: always the likeliest token
  int64_t top_k = 0;       // only the k likeliest tokens; 0: all
  double top_p = 1;        // only the likeliest tokens that have this probability together; 1: all
  uint64_t seed = 0;
  std::span<const int32_t> never;  // tokens that are not chosen
};

void CheckSampling(const SamplingOptions& options);  // throws kInvalidOption

// A token drawn from softmax(logits/temperature) within the limits: number `draw` of the seed's, a
// pure function of its arguments. Ties go to the smaller token. Throws kInvalidOption for options
// that cannot be and kInvalidData for logits that are not finite.
int32_t Sample(std::span<const float> logits, const SamplingOptions& options, uint64_t draw);

struct Generated {
  std::vector<int32_t> tokens;  // without the end token
  bool ended = false;           // the model drew the end of a record
};

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t tokens = 256;               // at most
  uint64_t sample = 0;                // several samples of one seed differ by their number
  std::function<void(int32_t)> each;  // sees a token as it comes
};

// What a decoder reads before it generates: the token before the first of a sequence, if the model
// knows one (TrainedModel::start), and a text. Throws kInvalidData if the text has no tokens,
// naming `who`.
std::vector<int32_t> Prompt(const Vocabulary& vocabulary, std::optional<int32_t> start,
                            std::string_view text, const std::string& who = "prompt");

// Draws tokens and reads them, the last one not, until a record ends; special tokens are not drawn.
// Throws
// kInvalidOption where the decoder has read nothing, or the vocabulary is not of its model's size.
Generated Generate(Decoder& decoder, const Vocabulary& vocabulary,
                   const GenerateOptions& options = {});

}  // namespace favor

#endif  // FAVOR_GENERATE_H_
