#include "io/png.h"

#include <png.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "core/error_text.h"
#include "io/atomic_file.h"
#include "io/input_file.h"

namespace favor::io {
namespace {

constexpr size_t kSignatureBytes = 8;
// The best ratio that deflate can reach: a picture that would need more is cut off or a trap.
constexpr int64_t kMostExpansion = 1032;

// libpng reports errors by longjmp, which skips destructors. Between setjmp and the last call of
// libpng, InfoRead and RowsRead therefore have no locals but numbers.
class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, const std::string& name) : left_(bytes), name_(name) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      Throw(ErrorCode::kOutOfMemory, Printable(name), "libpng cannot be set up");
    }
  }
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  Picture Decode() {
    const auto file_bytes = static_cast<int64_t>(left_.size());
    if (!InfoRead()) FailDamaged();
    CheckKind();
    Picture picture{.height = png_get_image_height(png_, info_),
                    .width = png_get_image_width(png_, info_),
                    .channels = png_get_channels(png_, info_)};
    // Sizes have up to 31 bits each: compared without a product that could overflow.
    const int64_t row = picture.width * picture.channels;
    if (row > kMostPictureBytes / picture.height) {
      Fail(fmt::format("has {} × {} pixels of {} channels, expected at most {} bytes",
                       picture.height, picture.width, picture.channels, kMostPictureBytes));
    }
    if (row * picture.height > kMostExpansion * file_bytes)
      Fail(fmt::format("damaged PNG file: {} × {} pixels in {} bytes", picture.height,
                       picture.width, file_bytes));
    picture.pixels.resize(static_cast<size_t>(row * picture.height));
    if (!RowsRead(picture.pixels.data(), static_cast<size_t>(row),
                  static_cast<size_t>(picture.height)))
      FailDamaged();
    return picture;
  }

 private:
  static void OnRead(png_structp png, png_bytep out, size_t count) {
    auto& self = *static_cast<Decoder*>(png_get_io_ptr(png));
    if (count > self.left_.size()) png_error(png, "cut off");
    std::memcpy(out, self.left_.data(), count);
    self.left_ = self.left_.subspan(count);
  }
  [[noreturn]] static void OnError(png_structp png, png_const_charp message) {
    auto& self = *static_cast<Decoder*>(png_get_error_ptr(png));
    std::snprintf(self.message_, sizeof(self.message_), "%s", message);
    png_longjmp(png, 1);
  }
  static void OnWarning(png_structp, png_const_charp) {}

  bool InfoRead() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, OnRead);
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // Text, colour profiles and the like are skipped, whatever they hold.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // checked by their product
    png_read_info(png_, info_);
    return true;
  }

  bool RowsRead(uint8_t* pixels, size_t row_bytes, size_t rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    for (int pass = 0; pass < passes; ++pass) {
      for (size_t row = 0; row < rows; ++row) png_read_row(png_, pixels + row * row_bytes, nullptr);
    }
    png_read_end(png_, nullptr);
    return true;
  }

  void CheckKind() const {
    const int kind = png_get_color_type(png_, info_), bits = png_get_bit_depth(png_, info_);
    if (kind == PNG_COLOR_TYPE_PALETTE) Fail("has a palette, expected grey or RGB pixels");
    if ((kind & PNG_COLOR_MASK_ALPHA) != 0)
      Fail("has an alpha channel, expected grey or RGB pixels");
    if (bits != 8)
      Fail(fmt::format("has {} bit{} per channel, expected 8", bits, bits == 1 ? "" : "s"));
    if (png_get_valid(png_, info_, PNG_INFO_tRNS) != 0)
      Fail("has a transparent colour, expected grey or RGB pixels");
  }

  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidData, Printable(name_), what);
  }
  [[noreturn]] void FailDamaged() const { Fail("damaged PNG file: " + Printable(message_)); }

  std::span<const std::byte> left_;
  const std::string& name_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  char message_[128] = "";
};

// The same care as in Decoder: errors come by longjmp, and exceptions do not pass through libpng.
class Encoder {
 public:
  Encoder() {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_write_struct(&png_, nullptr);
      throw std::bad_alloc();
    }
  }
  ~Encoder() { png_destroy_write_struct(&png_, &info_); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  std::string Encode(const Picture& picture) {
    // A checked picture can only fail for lack of memory.
    if (!Written(picture.pixels.data(), picture)) throw std::bad_alloc();
    return std::move(file_);
  }

 private:
  static void OnWrite(png_structp png, png_bytep bytes, size_t count) {
    bool grown = true;
    try {
      static_cast<Encoder*>(png_get_io_ptr(png))
          ->file_.append(reinterpret_cast<const char*>(bytes), count);
    } catch (const std::bad_alloc&) {
      grown = false;
    }
    if (!grown) png_error(png, "no memory");
  }
  [[noreturn]] static void OnError(png_structp png, png_const_charp) { png_longjmp(png, 1); }
  static void OnWarning(png_structp, png_const_charp) {}

  bool Written(const uint8_t* pixels, const Picture& picture) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_write_fn(png_, this, OnWrite, nullptr);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(picture.width),
                 static_cast<png_uint_32>(picture.height), 8,
                 picture.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    for (int64_t row = 0; row < picture.height; ++row)
      png_write_row(png_, pixels + row * picture.width * picture.channels);
    png_write_end(png_, nullptr);
    return true;
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::string file_;
};

// Throws unless a PNG file can hold the picture.
void Check(const Picture& picture) {
  const auto& [height, width, channels, pixels] = picture;
  const bool kind = channels == 1 || channels == 3;
  // Divided, since a product of three sizes might overflow.
  const bool size = kind && height > 0 && width > 0 && width <= kMostPictureBytes / channels &&
                    height <= kMostPictureBytes / (width * channels);
  if (!size || static_cast<int64_t>(pixels.size()) != height * width * channels) {
    Throw(ErrorCode::kInvalidData, "PNG",
          "given {} values for {} × {} pixels of {} channels, expected a value for each, 1 or 3 "
          "channels, and at most {} bytes",
          pixels.size(), height, width, channels, kMostPictureBytes);
  }
}

}  // namespace

std::string EncodePng(const Picture& picture) {
  Check(picture);
  return Encoder().Encode(picture);
}

void WritePng(const std::string& path, const Picture& picture) {
  WriteFileAtomically(path, EncodePng(picture));
}

Picture ParsePng(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view signature("\x89PNG\r\n\x1a\n", kSignatureBytes);
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (start.empty())
    Throw(ErrorCode::kInvalidData, Printable(name), "given an empty file, expected a PNG picture");
  if (!start.starts_with(signature)) {
    Throw(ErrorCode::kInvalidData, Printable(name),
          "not a PNG file (no PNG signature), expected a PNG picture");
  }
  return Decoder(bytes, name).Decode();
}

Picture ReadPng(const std::string& path) {
  const std::string bytes = OpenRegularFile(path).ReadRest(2 * kMostPictureBytes);
  return ParsePng(std::as_bytes(std::span(bytes)), path);
}

}  // namespace favor::io
