// The npy format (numpy/lib/format.py): "\x93NUMPY", version (2 bytes), header length (2 bytes in
// version 1, 4 in 2 and 3), then a Python dictionary literal with exactly the keys descr,
// fortran_order, shape, padded with spaces and ended by a newline; then the elements.
#include "favor/npy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error_text.h"
#include "io/atomic_file.h"
#include "io/input_file.h"

namespace favor {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = 65536;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads the dictionary literal: strings, True/False, and a tuple of integers are all that may
// occur.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header Parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    Expect('{');
    while (!Accept('}')) {
      const std::string key = String();
      Expect(':');
      if (key == "descr" && !has_descr) {
        has_descr = true;
        header.descr = Descr();
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header.fortran_order = Boolean();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        header.shape = Tuple();
      } else {
        Fail(fmt::format(
            "header has the key '{}', expected descr, fortran_order and shape once each",
            Printable(key)));
      }
      if (!Accept(',')) {
        Expect('}');
        break;
      }
    }
    SkipSpace();
    if (position_ != text_.size()) Fail("header has text after its dictionary");
    if (!has_descr || !has_order || !has_shape) {
      Fail("header lacks one of descr, fortran_order, shape");
    }
    return header;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidData, Printable(name_), "damaged npy file: " + what);
  }

  void SkipSpace() {
    while (position_ < text_.size() && std::strchr(" \t\r\n", text_[position_]) != nullptr &&
           text_[position_] != '\0') {
      ++position_;
    }
  }

  bool Accept(char c) {
    SkipSpace();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void Expect(char c) {
    if (!Accept(c)) Fail(fmt::format("expected '{}' at byte {} of the header", c, position_));
  }

  bool AcceptWord(std::string_view word) {
    SkipSpace();
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }

  std::string String() {
    SkipSpace();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"')
      Fail(fmt::format("expected a string at byte {} of the header", position_));
    const size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) Fail("header has a string without an end");
    const std::string value(text_.substr(position_ + 1, end - position_ - 1));
    position_ = end + 1;
    return value;
  }

  // A list is the descr of a record array: refused here, by a name that says what it is.
  std::string Descr() {
    SkipSpace();
    if (position_ < text_.size() && text_[position_] == '[') {
      throw Error(ErrorCode::kInvalidData, Printable(name_),
                  "given a structured (record) array, expected f2, f4 or f8");
    }
    return String();
  }

  bool Boolean() {
    if (AcceptWord("True")) return true;
    if (AcceptWord("False")) return false;
    Fail("fortran_order is neither True nor False");
  }

  std::vector<int64_t> Tuple() {
    std::vector<int64_t> sizes;
    Expect('(');
    while (!Accept(')')) {
      sizes.push_back(Integer());
      if (sizes.size() > 64) Fail("shape has more than 64 dimensions");
      if (!Accept(',')) {
        Expect(')');
        break;
      }
    }
    return sizes;
  }

  int64_t Integer() {
    SkipSpace();
    const size_t begin = position_;
    int64_t value = 0;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      const int64_t digit = text_[position_++] - '0';
      if (value > (INT64_MAX - digit) / 10) Fail("shape has a size beyond 63 bits");
      value = value * 10 + digit;
    }
    if (position_ == begin)
      Fail(fmt::format("expected a size at byte {} of the header", position_));
    if (position_ < text_.size() && text_[position_] == 'L') ++position_;  // Python 2 wrote 3L
    return value;
  }

  std::string_view text_;
  const std::string& name_;
  size_t position_ = 0;
};

// Python 2 quirk aside, descr is byte order ('<', '>', '|', '='), kind and size: "<f4".
DataType TypeOfDescr(const std::string& descr, const std::string& name) {
  if (descr == "<f4") return DataType::kF32;
  if (descr == "<f8") return DataType::kF64;
  if (descr == "<f2") return DataType::kF16;
  std::string found = fmt::format("elements of type '{}'", Printable(descr));
  const char kind = descr.size() >= 2 ? descr[1] : '\0';
  if (descr.starts_with(">")) {
    found = fmt::format("big-endian elements ('{}')", Printable(descr));
  } else if (kind == 'i' || kind == 'u') {
    found = fmt::format("integers ('{}')", Printable(descr));
  } else if (kind == 'O') {
    found = "Python objects";
  } else if (kind == 'b') {
    found = "booleans";
  } else if (kind == 'c') {
    found = fmt::format("complex numbers ('{}')", Printable(descr));
  }
  Throw(ErrorCode::kInvalidData, Printable(name),
        "given {}, expected little-endian f16, f32 or f64", found);
}

std::string Describe(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

struct Layout {
  Shape shape;
  DataType type;
  size_t data_begin;   // offset of the elements in the file
  bool bytes = false;  // one byte an element: a mask
};

// Reads signature and header from the first bytes of a file of `total` bytes and checks that shape
// and size of the file agree, before anything is allocated.
Layout ParseLayout(std::string_view start, size_t total, const std::string& name,
                   bool mask = false) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidData, Printable(name), what);
  };
  if (!start.starts_with(kMagic)) {
    fail(start.empty() ? "given an empty file, expected a .npy array"
                       : "not an npy file (no NUMPY signature), expected a .npy array");
  }
  constexpr size_t kVersionEnd = kMagic.size() + 2;
  if (start.size() < kVersionEnd + 4) fail("damaged npy file: truncated before its header");
  const int version = static_cast<unsigned char>(start[kMagic.size()]);
  if (version < 1 || version > 3)
    fail(fmt::format("given npy format version {}, expected 1, 2 or 3", version));

  const size_t length_bytes = version == 1 ? 2 : 4;
  size_t header_bytes = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    header_bytes |= static_cast<size_t>(static_cast<unsigned char>(start[kVersionEnd + i]))
                    << (8 * i);
  }
  const size_t header_begin = kVersionEnd + length_bytes;
  if (header_bytes > kMaxHeaderBytes) {
    fail(fmt::format("damaged npy file: header of {} bytes, expected at most {}", header_bytes,
                     kMaxHeaderBytes));
  }
  if (header_bytes > start.size() - header_begin)
    fail("damaged npy file: truncated inside its header");

  const Header header = HeaderParser(start.substr(header_begin, header_bytes), name).Parse();
  const bool is_bytes = mask && (header.descr == "|b1" || header.descr == "|u1");
  const DataType type = is_bytes ? DataType::kF32 : TypeOfDescr(header.descr, name);
  if (header.fortran_order && header.shape.size() > 1) {
    fail("given Fortran (column-major) order, expected C order (save numpy.ascontiguousarray(x))");
  }
  if (header.shape.size() > Shape::kMaxRank) {
    fail(fmt::format("given {} dimensions, expected at most {}", header.shape.size(),
                     Shape::kMaxRank));
  }
  const size_t data_begin = header_begin + header_bytes;
  const size_t data_bytes = total - data_begin;
  const size_t item = is_bytes ? 1 : static_cast<size_t>(ItemBytes(type));
  const size_t room =
      data_bytes / item + 1;  // one more than fits, so that products cannot overflow
  size_t expected = 1;
  const bool empty = std::ranges::find(header.shape, 0) != header.shape.end();
  for (const int64_t size : header.shape) {
    if (!empty && expected > room / static_cast<size_t>(size)) {
      fail(fmt::format("truncated: shape {} of {} needs more than the {} data bytes of the file",
                       Describe(header.shape), Name(type), data_bytes));
    }
    expected = empty ? 0 : expected * static_cast<size_t>(size);
  }
  if (expected * item != data_bytes) {
    fail(fmt::format("{}: shape {} of {} needs {} data bytes, the file has {}",
                     expected * item > data_bytes ? "truncated" : "trailing bytes",
                     Describe(header.shape), Name(type), expected * item, data_bytes));
  }
  return {Shape(std::span<const int64_t>(header.shape)), type, data_begin, is_bytes};
}

}  // namespace

Tensor ParseNpy(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Layout layout = ParseLayout(text, bytes.size(), name);
  Tensor tensor(layout.shape, layout.type);
  const auto data = bytes.subspan(layout.data_begin);
  if (!data.empty()) std::memcpy(tensor.view().data(), data.data(), data.size());
  return tensor;
}

Tensor ReadNpy(const std::string& path) {
  io::InputFile file(path);
  std::string start(kMagic.size() + 2 + 4 + kMaxHeaderBytes, '\0');
  start.resize(file.Read(std::as_writable_bytes(std::span(start))));
  if (!file.Size()) {  // a pipe: its size is known only at its end
    if (start.starts_with(kMagic)) start += file.ReadRest();  // and not, say, all of /dev/zero
    return ParseNpy(std::as_bytes(std::span(start)), path);
  }
  const Layout layout = ParseLayout(start, *file.Size(), path);
  Tensor tensor(layout.shape, layout.type);
  const std::span<std::byte> data(static_cast<std::byte*>(tensor.view().data()),
                                  static_cast<size_t>(tensor.Bytes()));
  const size_t have = std::min(start.size() - layout.data_begin, data.size());
  std::memcpy(data.data(), start.data() + layout.data_begin, have);
  if (file.Read(data.subspan(have)) != data.size() - have) {
    Throw(ErrorCode::kIo, Printable(path), "the file became shorter while it was read");
  }
  return tensor;
}

Tensor ReadNpyMask(const std::string& path) {
  const std::string bytes = io::InputFile(path).ReadRest();
  const Layout layout = ParseLayout(bytes, bytes.size(), path, /*mask=*/true);
  if (!layout.bytes) return ParseNpy(std::as_bytes(std::span(bytes)), path).To(DataType::kF32);
  Tensor mask(layout.shape);
  for (int64_t i = 0; i < layout.shape.Elements(); ++i) {
    mask.Data<float>()[i] =
        static_cast<unsigned char>(bytes[layout.data_begin + static_cast<size_t>(i)]);
  }
  return mask;
}

void WriteNpy(const std::string& path, ConstView array) {
  const DataType type = array.type() == DataType::kBF16 ? DataType::kF32 : array.type();
  const std::string_view descr = type == DataType::kF32   ? "<f4"
                                 : type == DataType::kF64 ? "<f8"
                                                          : "<f2";
  std::string shape;
  for (int axis = 0; axis < array.rank(); ++axis) shape += fmt::format("{}, ", array.size(axis));
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  // The data begins at a multiple of 64 bytes, so that a reader may map it.
  constexpr size_t kPrefix = 10;
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header += '\n';

  Tensor packed;
  if (type != array.type() || !array.IsContiguous()) {
    packed = Tensor(array.shape(), type);
    Copy(array, packed.view());
    array = std::as_const(packed).view();
  }
  io::AtomicFile file(path);
  file.Write(kMagic);
  const char prefix[4] = {1, 0, static_cast<char>(header.size() & 0xff),
                          static_cast<char>(header.size() >> 8)};
  file.Write(std::string_view(prefix, 4));
  file.Write(header);
  file.Write({static_cast<const std::byte*>(array.data()),
              static_cast<size_t>(array.shape().Elements() * ItemBytes(type))});
  file.Commit();
}

}  // namespace favor
