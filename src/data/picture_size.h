// The size that all pictures of some data have.
#ifndef FAVOR_DATA_PICTURE_SIZE_H_
#define FAVOR_DATA_PICTURE_SIZE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace favor::data {

struct PictureSize {
  int64_t height = 0, width = 0, channels = 0;

  bool operator==(const PictureSize&) const = default;
  int64_t Pixels() const { return height * width * channels; }
  std::string Text() const;  // "28 × 28 × 1", as Dataset::Shape and checkpoints have it
  // Empty if the text is not such a size, or not one of grey or RGB pictures of `pixels` values.
  static std::optional<PictureSize> Parse(std::string_view text, int64_t pixels);
};

}  // namespace favor::data

#endif  // FAVOR_DATA_PICTURE_SIZE_H_
