// Prefixes that grow, and their file: a safetensors file with the metadata
//   format "favor.context", version "3", model (a hash of config and weights), tokens
// and the tensors of each layer's cache and the logits of the next token.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>

#include "core/access.h"
#include "core/error_text.h"
#include "core/hash.h"
#include "core/host_copy.h"
#include "core/json.h"
#include "favor/generate.h"
#include "io/input_file.h"
#include "io/safetensors.h"
#include "models/config_fields.h"
#include "models/network.h"
#include "models/recorded_work.h"

namespace favor {
namespace {

constexpr const char* kFormat = "favor.context";
constexpr const char* kVersion = "3";
constexpr const char* kLogits = "logits";
// Tokens of a prompt that are read at a time: enough rows for efficient products, few enough that
// their activations stay small.
constexpr size_t kChunk = 512;
constexpr int64_t kMostSequences = 65536;

std::string LayerName(size_t layer) { return fmt::format("layers.{}", layer); }

// A hash of config, weights (in the order of their names) and ω: a prefix means nothing to another
// model. It is the same wherever the model is.
std::string HashOfModel(const models::Network& network) {
  Hasher hasher;
  hasher.Add(network.seed());
  hasher.Add(network.redraw());
  std::map<std::string_view, ConstView> values;
  for (const auto& parameter : network.parameters().all())
    values[parameter->name] = parameter->value;
  for (const auto& [name, value] : values) {
    hasher.Add(std::as_bytes(std::span(name)));
    const HostCopy copy(value);
    const ConstView& numbers = copy.view();
    hasher.Add(
        std::span(static_cast<const std::byte*>(numbers.data()),
                  static_cast<size_t>(numbers.shape().Elements() * ItemBytes(numbers.type()))));
  }
  const std::string config = models::ToJson(network.config()).dump();
  hasher.Add(std::as_bytes(std::span(config)));
  return fmt::format("{:016x}", hasher.Value());
}

}  // namespace

struct Decoder::Impl {
  Impl(const models::Network& decoded, const Context& decoder_context, models::Cache prefix)
      : network(decoded),
        context(decoder_context),
        tally(context, network.TallyEntries(), network.config().vocab * prefix.sequences),
        cache(std::move(prefix)),
        buffers(network.MakeBuffers()) {
    network.CheckContext(context);
  }

  const models::Network& network;
  const Context& context;
  Tally tally;  // and the logits that a pass leaves
  models::Cache cache;
  models::PassBuffers buffers;
  std::vector<float> logits;
  models::RecordedWork step;  // the pass over one more token, which finds everything in its place

  // Throws if so many tokens, besides those of the prefix, are more than learned positions.
  void CheckRoom(int64_t more) const {
    const ModelConfig& config = network.config();
    if (config.positions == Positions::kLearned && more > config.max_length - cache.tokens) {
      Throw(ErrorCode::kInvalidOption, "decoder",
            "given {} tokens after {}, expected at most {} in all: learned positions end there "
            "(rotary and sinusoidal ones do not)",
            more, cache.tokens, config.max_length);
    }
  }

  // Queue passes: over tokens that follow, and over one more token of each sequence.
  void QueuePiece(std::span<const int32_t> tokens) {
    step.Drop();  // the pass may use other memory
    tally.Clear();
    network.Continue(tokens, {.context = context, .tally = &tally}, cache, buffers);
  }
  void QueueStep(std::span<const int32_t> tokens) {
    network.SendStep(tokens, context, cache, buffers);
    const auto work = [&] {
      tally.Clear();
      network.Step({.context = context, .tally = &tally}, cache, buffers);
    };
    if (!cache.StaysInPlace()) return work();
    if (!step.Run(context, work)) cache.Advance(1);
  }
  // Waits for a pass over `count` tokens of each sequence.
  void Finish(int64_t count) {
    std::vector<float> read(static_cast<size_t>(network.config().vocab * cache.sequences));
    network.Read(tally, read);  // throws if some layer could not read the tokens
    cache.whole = true;
    cache.tokens += count;
    logits = std::move(read);
  }

  void CheckOne(std::string_view call) const {
    if (cache.sequences == 1) return;
    Throw(ErrorCode::kInvalidOption, "decoder", "{}: given a decoder of {} sequences, expected one",
          call, cache.sequences);
  }
  void CheckWhole() const {
    if (cache.whole) return;
    Throw(ErrorCode::kInvalidData, "decoder",
          "the prefix was lost when tokens after its first {} could not be read", cache.tokens);
  }
};

Decoder::Decoder(const Model& model, const Context& context)
    : impl_(std::make_unique<Impl>(internal::Inside(model), context,
                                   internal::Inside(model).MakeCache())) {}
Decoder::Decoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

void Decoder::Read(std::span<const int32_t> tokens) {
  impl_->CheckOne("read");
  impl_->CheckWhole();
  impl_->CheckRoom(std::ssize(tokens));
  while (!tokens.empty()) {
    const std::span<const int32_t> piece = tokens.first(std::min(kChunk, tokens.size()));
    tokens = tokens.subspan(piece.size());
    if (piece.size() > 1) {
      impl_->QueuePiece(piece);
    } else {
      impl_->QueueStep(piece);
    }
    impl_->Finish(std::ssize(piece));
  }
}

void Decoder::ReadEach(std::span<const int32_t> tokens) {
  if (std::ssize(tokens) != sequences())
    Throw(ErrorCode::kInvalidOption, "decoder", "given {} tokens for {} sequences", tokens.size(),
          sequences());
  impl_->CheckWhole();
  impl_->CheckRoom(1);
  impl_->QueueStep(tokens);
  impl_->Finish(1);
}

std::span<const float> Decoder::Logits(int64_t sequence) const {
  if (sequence < 0 || sequence >= sequences())
    Throw(ErrorCode::kInvalidOption, "decoder", "given sequence {}, expected 0 to {}", sequence,
          sequences() - 1);
  const std::span<const float> all = impl_->logits;
  const size_t count = all.size() / static_cast<size_t>(sequences());
  return all.subspan(static_cast<size_t>(sequence) * count, count);
}

const Context& Decoder::context() const { return impl_->context; }
int64_t Decoder::sequences() const { return impl_->cache.sequences; }
int64_t Decoder::tokens() const { return impl_->cache.tokens; }
int64_t Decoder::StateBytes() const { return impl_->cache.Bytes(); }

Decoder Decoder::Fork(int64_t sequences) const {
  impl_->CheckOne("fork");
  if (sequences < 1 || sequences > kMostSequences)
    Throw(ErrorCode::kInvalidOption, "decoder", "given a fork to {} sequences, expected 1 to {}",
          sequences, kMostSequences);
  return Repeated(sequences);
}

Decoder Decoder::Clone() const { return Repeated(1); }

Decoder Decoder::Repeated(int64_t times) const {
  auto copy = std::make_unique<Impl>(impl_->network, impl_->context, impl_->cache.Fork(times));
  for (int64_t i = 0; i < times; ++i)
    copy->logits.insert(copy->logits.end(), impl_->logits.begin(), impl_->logits.end());
  return Decoder(std::move(copy));
}

void Decoder::Save(const std::string& path) const {
  impl_->CheckOne("save");
  impl_->CheckWhole();
  io::Safetensors file;
  file.metadata = {{"format", kFormat},
                   {"version", kVersion},
                   {"model", HashOfModel(impl_->network)},
                   {"tokens", std::to_string(tokens())}};
  for (size_t layer = 0; layer < impl_->cache.layers.size(); ++layer)
    impl_->cache.layers[layer].Store(LayerName(layer), file);
  if (!impl_->logits.empty()) {
    file.entries[kLogits] =
        io::EntryOf(ConstView(impl_->logits.data(), {std::ssize(impl_->logits)}));
  }
  io::WriteSafetensors(path, file);
}

void Decoder::Load(const std::string& path) {
  impl_->CheckOne("load");
  const std::string bytes = io::ReadRegularFile(path);
  const io::Safetensors file = io::ParseSafetensors(std::as_bytes(std::span(bytes)), path);
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidData, Printable(path), what);
  };
  file.Metadata("checksum", path);  // must be present; it has been checked
  if (file.Metadata("format", path) != kFormat)
    fail("is a safetensors file, but not a prefix kept by favor");
  if (const std::string& version = file.Metadata("version", path); version != kVersion)
    fail(fmt::format("is a prefix of version '{}', expected {}", Printable(version), kVersion));
  if (file.Metadata("model", path) != HashOfModel(impl_->network))
    fail("is the prefix of another model");
  const std::string& text = file.Metadata("tokens", path);
  int64_t tokens = -1;
  std::from_chars(text.data(), text.data() + text.size(), tokens);
  if (tokens < 0 || std::to_string(tokens) != text)
    fail(fmt::format("has '{}' tokens, expected a number", Printable(text)));
  models::Cache cache = impl_->network.MakeCache();
  std::vector<float> logits;
  if (tokens > 0) {
    cache.tokens = tokens;
    for (size_t layer = 0; layer < cache.layers.size(); ++layer)
      cache.layers[layer].Load(LayerName(layer), file, tokens, path);
    const io::SafetensorsEntry& entry = file.Entry(kLogits, path);
    if (entry.shape != std::vector<int64_t>{impl_->network.config().vocab})
      fail("has logits of another vocabulary");
    logits = entry.Values<float>(path);
    if (!std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }))
      fail("has logits that are not finite");
  }
  // A table of angles for the prefix that was there may be short: in the middle of the new one it
  // would be exchanged for another, while a record still reads it.
  impl_->step.Drop();
  impl_->buffers = impl_->network.MakeBuffers();
  impl_->cache = std::move(cache);
  impl_->logits = std::move(logits);
}

}  // namespace favor
