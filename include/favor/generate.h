// Generating with models: a prefix that grows token by token, and the choice of the next token.
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

// Reads the tokens of a sequence and predicts the next one. It never changes the model's weights:
// several decoders of one model may be used from several threads at once, each with a Context of
// its own. If the weights change (by a Trainer, say), the prefix no longer fits them: make a new
// decoder.
class Decoder {
 public:
  // Model and context must outlive it, and be on one device, where all that is kept of the prefix
  // is. Throws kInvalidOption if they are not, or if the model does not predict the next token.
  Decoder(const Model& model, const Context& context);
  Decoder(Model&&, const Context&) = delete;
  Decoder(const Model&, Context&&) = delete;
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Appends tokens to the prefix; many at once are read in chunks. Throws kInvalidData for tokens
  // outside the vocabulary (the prefix then ends before the chunk that failed), and kInvalidOption
  // if learned positions are too few (nothing has been read then). Any other error, such as numbers
  // that leave their range in some layer, comes when the layers before it have already read the
  // chunk: the prefix is lost then, and Read and Save throw kInvalidData until Load restores one.
  void Read(std::span<const int32_t> tokens);

  // Logits of the next token of a sequence, [vocab]; empty before the first Read.
  std::span<const float> Logits(int64_t sequence = 0) const;
  int64_t tokens() const;      // length of the prefix
  int64_t StateBytes() const;  // size of what is kept of the prefixes
  const Context& context() const;

  Decoder Clone() const;  // to continue from one prefix in two ways

  // A decoder of several sequences that begin with this prefix and go their own ways, one token of
  // each at a time: a pass then reads the weights once for all of them. Such a decoder is not read
  // by Read, and neither forked, saved nor loaded. Throws kInvalidOption if this one is such.
  Decoder Fork(int64_t sequences) const;
  int64_t sequences() const;
  // Appends one token to each sequence; as Read.
  void ReadEach(std::span<const int32_t> tokens);

  // Writes the prefix and the identity of its model to a safetensors file, atomically. Load refuses
  // a damaged file and the file of another model.
  void Save(const std::string& path) const;
  void Load(const std::string& path);

 private:
  struct Impl;
  explicit Decoder(std::unique_ptr<Impl> impl);
  Decoder Repeated(int64_t times) const;

  std::unique_ptr<Impl> impl_;
};

struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: always the likeliest token
  int64_t top_k = 0;       // only the k likeliest tokens; 0: all
  double top_p = 1;        // only the likeliest tokens that together have this probability; 1: all
  uint64_t seed = 0;
  std::span<const int32_t> never;  // tokens that are not chosen
};

void CheckSampling(const SamplingOptions& options);  // throws kInvalidOption

// A token drawn from softmax(logits/temperature) within the limits: draw number `draw` of the seed,
// a pure function of the arguments. Ties go to the smaller token. Throws kInvalidOption for invalid
// options and kInvalidData for logits that are not finite.
int32_t Sample(std::span<const float> logits, const SamplingOptions& options, uint64_t draw);

struct Generated {
  std::vector<int32_t> tokens;  // without the end token
  bool ended = false;           // the model drew the end of a record
};

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t tokens = 256;               // at most
  uint64_t sample = 0;                // several samples of one seed differ by their number
  std::function<void(int32_t)> each;  // called with each token as it is drawn
};

// What a decoder reads before it generates: the token that begins every sequence, if the model has
// one (TrainedModel::start), and a text. Throws kInvalidData, naming `who`, if the text has no
// tokens.
std::vector<int32_t> Prompt(const Vocabulary& vocabulary, std::optional<int32_t> start,
                            std::string_view text, const std::string& who = "prompt");

// Draws tokens until a record ends, and reads all but the last of them; special tokens are not
// drawn. Throws kInvalidOption if the decoder has read nothing, or if the vocabulary does not have
// the size of its model's.
Generated Generate(Decoder& decoder, const Vocabulary& vocabulary,
                   const GenerateOptions& options = {});

// Draws `samples` samples at a time that continue one prefix, which stays as it is: their numbers
// are options.sample, options.sample + 1, …, and each has the draws that Generate gives it. On a
// GPU, and of more than four samples on a CPU, logits differ by rounding from those of a sample
// alone. options.each is not called. A sample that has ended is computed until all have.
std::vector<Generated> GenerateTogether(const Decoder& prefix, const Vocabulary& vocabulary,
                                        int64_t samples, const GenerateOptions& options = {});

}  // namespace favor

#endif  // FAVOR_GENERATE_H_
