#include "benchmarks/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "core/device.h"
#include "core/device_graph.h"
#include "core/parallel.h"
#include "core/progress.h"
#include "core/stopwatch.h"
#include "favor/generate.h"
#include "favor/random.h"

namespace favor::benchmarks {
namespace {

std::vector<int32_t> Noise(int64_t first, int64_t count, int64_t vocab) {
  const RandomStream stream(0, "tokens to read");
  std::vector<int32_t> tokens;
  for (int64_t i = first; i < first + count; ++i) {
    tokens.push_back(static_cast<int32_t>(stream.Uniform(static_cast<uint64_t>(i)) *
                                          static_cast<double>(vocab)));
  }
  return tokens;
}

// Times a copy of bytes: by all threads, or within a GPU.
class CopiedBytes {
 public:
  CopiedBytes(const Context& context, int64_t bytes) : context_(context), bytes_(bytes) {
    if (context.device().type == DeviceType::kCuda) {
      there_.emplace(context, bytes);
    } else {
      from_.assign(static_cast<size_t>(bytes), 1);
      to_.resize(from_.size());
    }
    Seconds();  // warms
  }

  double Seconds() {
    if (!there_) return LeastSeconds(1, [&] { CopyByThreads(); });
    there_->watch.Start();
    QueueCopy(there_->to.get(), there_->from.get(), bytes_, context_);
    there_->watch.Stop();
    return there_->watch.Seconds();
  }

 private:
  struct OnGpu {
    OnGpu(const Context& context, int64_t bytes)
        : from(AllocateOn(context.device(), bytes)),
          to(AllocateOn(context.device(), bytes)),
          watch(context) {}

    internal::Memory from, to;
    DeviceStopwatch watch;
  };

  void CopyByThreads() {
    constexpr int64_t kPiece = 1 << 20;
    ParallelForBlocks(context_, bytes_, kPiece, [&](int64_t begin, int64_t end) {
      std::memcpy(to_.data() + begin, from_.data() + begin, static_cast<size_t>(end - begin));
    });
  }

  const Context& context_;
  int64_t bytes_;
  std::vector<char> from_, to_;
  std::optional<OnGpu> there_;
};

}  // namespace

GenerateBench RunGenerateBench(const GenerateBenchOptions& options, const Context& context) {
  GenerateBench bench{.options = options, .threads = context.threads()};
  std::ranges::sort(bench.options.prefixes);
  const Device device = context.device();
  if (device.type == DeviceType::kCuda)
    bench.gpu = ListGpus()[static_cast<size_t>(device.index)].name;
  const Model model(options.model, /*seed=*/1, {device, options.pass_type});
  bench.weight_bytes = model.ParameterCount() * ItemBytes(options.pass_type);
  Decoder decoder(model, context);
  Progress progress("bench", bench.options.prefixes.back(), options.quiet);
  for (const int64_t length : bench.options.prefixes) {
    GenerateMeasurement row{.prefix = length, .seconds = std::numeric_limits<double>::infinity()};
    const int64_t fresh = length - decoder.tokens();
    constexpr int64_t kPiece = 4096;
    double reading = 0;
    while (decoder.tokens() < length) {
      const auto piece =
          Noise(decoder.tokens(), std::min(kPiece, length - decoder.tokens()), options.model.vocab);
      reading += LeastSeconds(1, [&] { decoder.Read(piece); });
      progress.Update(decoder.tokens(), fmt::format("prefix {}", length));
    }
    row.read_tokens_per_second = fresh > 0 ? static_cast<double>(fresh) / reading : 0;
    row.state_bytes = options.batch * decoder.StateBytes();
    CopiedBytes copy(context, bench.weight_bytes + row.state_bytes);
    row.copy_seconds = row.seconds;
    for (int64_t round = 0; round < options.rounds; ++round) {
      Decoder own = decoder.Fork(options.batch);
      const auto noise = Noise(length, (options.kUntimedTokens + options.tokens) * options.batch,
                               options.model.vocab);
      std::span<const int32_t> left = noise;
      const auto read = [&](int64_t steps) {
        for (int64_t i = 0; i < steps; ++i) {
          own.ReadEach(left.first(static_cast<size_t>(options.batch)));
          left = left.subspan(static_cast<size_t>(options.batch));
        }
      };
      read(options.kUntimedTokens);
      const double seconds = LeastSeconds(1, [&] { read(options.tokens); });
      row.seconds = std::min(row.seconds, seconds / static_cast<double>(options.tokens));
      for (int i = 0; i < 3; ++i) row.copy_seconds = std::min(row.copy_seconds, copy.Seconds());
    }
    bench.rows.push_back(row);
  }
  return bench;
}

reports::Table GenerateBench::ToTable() const {
  const ModelConfig& m = options.model;
  reports::Table table{
      .title = fmt::format(
          "Generation, {} attention, {} layers, width {}, {} heads, batch {}, {}", m.attention,
          m.layers, m.width, m.heads, options.batch,
          gpu.empty() ? fmt::format("{} threads", threads) : std::string(Name(options.pass_type))),
      .caption = fmt::format(
          "{}Weights: {:.1f} MB. A step, one token of each sequence, reads them and all states "
          "once: the floor is the time of a copy of as many bytes, in this run, and the last "
          "column its share of a step. Shortest of {} times.",
          gpu.empty() ? "" : gpu + ". ", static_cast<double>(weight_bytes) / 1e6, options.rounds),
      .columns = {"prefix", "read tokens/s", "tokens/s", "ms/step", "floor ms", "state MB",
                  "copy GB/s", "of copy"}};
  for (const GenerateMeasurement& row : rows) {
    const auto bytes = static_cast<double>(weight_bytes + row.state_bytes);
    table.rows.push_back(
        {std::to_string(row.prefix), fmt::format("{:.0f}", row.read_tokens_per_second),
         fmt::format("{:.1f}", TokensPerSecond(row)), fmt::format("{:.3f}", 1e3 * row.seconds),
         fmt::format("{:.3f}", 1e3 * row.copy_seconds),
         fmt::format("{:.3f}", static_cast<double>(row.state_bytes) / 1e6),
         fmt::format("{:.2f}", bytes / row.copy_seconds / 1e9),
         fmt::format("{:.0f} %", 100 * row.ShareOfCopy())});
  }
  return table;
}

}  // namespace favor::benchmarks
