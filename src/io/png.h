// PNG pictures of 8 bits per channel, grey or RGB: values as they are stored, no colour management.
#ifndef FAVOR_IO_PNG_H_
#define FAVOR_IO_PNG_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace favor::io {

constexpr int64_t kMostPictureBytes = int64_t{1} << 28;

struct Picture {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

// Throws kInvalidData if the picture is of another type (other depths, palettes, transparency),
// larger than kMostPictureBytes, or damaged; `name` stands for the path in errors.
Picture ParsePng(std::span<const std::byte> bytes, const std::string& name);
Picture ReadPng(const std::string& path);

// The bytes of a PNG file. Throws kInvalidData if the pixels are not height × width × channels, the
// picture is empty or larger than kMostPictureBytes, or it does not have 1 or 3 channels.
std::string EncodePng(const Picture& picture);
void WritePng(const std::string& path, const Picture& picture);  // atomically

}  // namespace favor::io

#endif  // FAVOR_IO_PNG_H_
