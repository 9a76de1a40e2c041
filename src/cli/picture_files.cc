#include "cli/picture_files.h"

#include <filesystem>

#include "core/error_text.h"
#include "io/png.h"

namespace favor::cli {
PictureFiles::PictureFiles(const TrainedModel& run, std::string path, int64_t samples)
    : path_(std::move(path)), shape_(run.shape), samples_(samples) {
  if (run.vocabulary->name() != "pixels") {
    Throw(ErrorCode::kInvalidOption, "generate: --png",
          "given a model of {}, expected a model of pixels", run.vocabulary->name());
  }
  if (shape_.empty()) {
    Throw(ErrorCode::kInvalidData, Printable(run.path),
          "made by an older favor, does not hold the size of its pictures, expected a newer run "
          "for --png");
  }
  const int64_t pixels = run.config.training.length;
  const auto size = data::PictureSize::Parse(shape_, pixels);
  if (!size) {
    Throw(ErrorCode::kInvalidData, Printable(run.path),
          "damaged checkpoint: given pictures of '{}', expected a size of {} values",
          Printable(shape_), pixels);
  }
  size_ = *size;
}

std::string PictureFiles::Path(int64_t sample) const {
  if (samples_ == 1) return path_;
  std::filesystem::path path(path_);
  path.replace_filename(
      fmt::format("{}-{}{}", path.stem().string(), sample + 1, path.extension().string()));
  return path.string();
}

void PictureFiles::Write(int64_t sample, std::span<const int32_t> tokens) const {
  io::WritePng(Path(sample), {.height = size_.height,
                              .width = size_.width,
                              .channels = size_.channels,
                              .pixels = {tokens.begin(), tokens.end()}});
}

}  // namespace favor::cli
