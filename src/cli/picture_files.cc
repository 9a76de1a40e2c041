#include "cli/picture_files.h"

#include <charconv>
#include <filesystem>

#include "core/error_text.h"
#include "io/png.h"

namespace favor::cli {
namespace {

// The sizes of "28 × 28 × 1"; fewer if the text is another.
std::vector<int64_t> Sizes(std::string_view shape) {
  constexpr std::string_view kTimes = " × ";
  std::vector<int64_t> sizes;
  for (;;) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(shape.data(), shape.data() + shape.size(), size);
    if (error != std::errc() || size < 1 || size > io::kMostPictureBytes) return {};
    sizes.push_back(size);
    shape.remove_prefix(static_cast<size_t>(end - shape.data()));
    if (shape.empty()) return sizes;
    if (!shape.starts_with(kTimes)) return {};
    shape.remove_prefix(kTimes.size());
  }
}

}  // namespace

PictureFiles::PictureFiles(const TrainedModel& run, std::string path, int64_t samples)
    : path_(std::move(path)), shape_(run.shape), samples_(samples) {
  if (run.vocabulary->name() != "pixels") {
    Throw(ErrorCode::kInvalidOption, "generate: --png",
          "given a model of {}, expected one of pixels", run.vocabulary->name());
  }
  if (shape_.empty()) {
    Throw(ErrorCode::kInvalidData, Printable(run.path),
          "made by an older favor, does not hold the size of its pictures, expected a newer run "
          "for --png");
  }
  const std::vector<int64_t> sizes = Sizes(shape_);
  const int64_t pixels = run.config.training.length;
  // Divided, since the product of three sizes might overflow.
  if (sizes.size() != 3 || (sizes[2] != 1 && sizes[2] != 3) || pixels % sizes[2] != 0 ||
      pixels / sizes[2] % sizes[1] != 0 || pixels / sizes[2] / sizes[1] != sizes[0]) {
    Throw(ErrorCode::kInvalidData, Printable(run.path),
          "damaged checkpoint: pictures of '{}', expected sizes of {} values", Printable(shape_),
          pixels);
  }
  height_ = sizes[0];
  width_ = sizes[1];
  channels_ = sizes[2];
}

std::string PictureFiles::Path(int64_t sample) const {
  if (samples_ == 1) return path_;
  std::filesystem::path path(path_);
  path.replace_filename(
      fmt::format("{}-{}{}", path.stem().string(), sample + 1, path.extension().string()));
  return path.string();
}

void PictureFiles::Write(int64_t sample, std::span<const int32_t> tokens) const {
  io::WritePng(Path(sample), {.height = height_,
                              .width = width_,
                              .channels = channels_,
                              .pixels = {tokens.begin(), tokens.end()}});
}

}  // namespace favor::cli
