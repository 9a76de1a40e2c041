// PNG files for tests, of every kind that libpng writes.
#ifndef FAVOR_TESTS_PNG_FILE_H_
#define FAVOR_TESTS_PNG_FILE_H_

#include <png.h>

#include <cstdint>
#include <string>
#include <vector>

namespace favor {

struct PngKind {
  int color = PNG_COLOR_TYPE_GRAY;
  int bits = 8;
  bool interlaced = false;
  bool transparent = false;  // with a tRNS chunk
  double gamma = 0;          // with a gAMA chunk
};

// `rows` are the bytes of all rows as libpng takes them, each a whole number of bytes.
inline std::string Png(int64_t height, int64_t width, std::vector<uint8_t> rows,
                       const PngKind& kind = {}) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp writer, png_bytep bytes, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(writer))
            ->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               kind.bits, kind.color, kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  const std::vector<png_color> palette(size_t{1} << (kind.bits < 8 ? kind.bits : 8));
  if (kind.color == PNG_COLOR_TYPE_PALETTE)
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  const png_color_16 color{};
  if (kind.transparent) png_set_tRNS(png, info, nullptr, 0, &color);
  if (kind.gamma != 0) png_set_gAMA(png, info, kind.gamma);
  png_write_info(png, info);
  std::vector<png_bytep> pointers;
  for (int64_t row = 0; row < height; ++row)
    pointers.push_back(rows.data() + static_cast<size_t>(row) * png_get_rowbytes(png, info));
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace favor

#endif  // FAVOR_TESTS_PNG_FILE_H_
