// Pictures that a model of pixels generates, as PNG files.
#ifndef FAVOR_CLI_PICTURE_FILES_H_
#define FAVOR_CLI_PICTURE_FILES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/picture_size.h"
#include "favor/train.h"

namespace favor::cli {

class PictureFiles {
 public:
  // One sample goes to `path`, several to FILE-1.png, FILE-2.png, … for a `path` of FILE.png.
  // Throws kInvalidOption if the model does not generate pictures, and kInvalidData if its
  // checkpoint does not hold their size.
  PictureFiles(const TrainedModel& run, std::string path, int64_t samples);

  const std::string& shape() const { return shape_; }  // "28 × 28 × 1"
  int64_t Pixels() const { return size_.Pixels(); }    // tokens per picture
  std::string Path(int64_t sample) const;
  // `tokens`: all tokens of one picture. The file appears whole or not at all.
  void Write(int64_t sample, std::span<const int32_t> tokens) const;

 private:
  std::string path_, shape_;
  int64_t samples_;
  data::PictureSize size_;
};

}  // namespace favor::cli

#endif  // FAVOR_CLI_PICTURE_FILES_H_
