// Pictures of one size: PNG files, or an npy of bytes [pictures, height, width(, channels)].
#ifndef FAVOR_DATA_PICTURE_SOURCE_H_
#define FAVOR_DATA_PICTURE_SOURCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/picture_size.h"
#include "io/npy_bytes.h"

namespace favor::data {

class PictureSource {
 public:
  // A PNG file, a folder of them, or an npy.
  explicit PictureSource(const std::string& path);

  int64_t pictures() const { return pictures_; }
  const PictureSize& size() const { return size_; }
  // Pixels in raster order, channels of a pixel one after the other. Throws kInvalidData if a file
  // is damaged or holds a picture of another size.
  std::vector<uint8_t> Read(int64_t picture) const;
  std::string NameOf(int64_t picture) const;  // a file's, without its folder; a number in an array

 private:
  void OpenArray(const std::string& path);

  std::vector<std::string> files_;
  std::optional<io::NpyBytes> array_;
  int64_t pictures_ = 0;
  PictureSize size_;
};

}  // namespace favor::data

#endif  // FAVOR_DATA_PICTURE_SOURCE_H_
