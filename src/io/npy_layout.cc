// The npy format (numpy/lib/format.py): "\x93NUMPY", version (2 bytes), header length (2 bytes in
// version 1, 4 in 2 and 3), then a Python dictionary literal with exactly the keys descr,
// fortran_order, shape, padded with spaces and ended by a newline; then the elements.
#include "io/npy_layout.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "core/error_text.h"

namespace favor::io {
namespace {

constexpr size_t kMaxHeaderBytes = kNpyStartBytes - kNpyMagic.size() - 2 - 4;

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
    std::string value(text_.substr(position_ + 1, end - position_ - 1));
    position_ = end + 1;
    return value;
  }

  // A list is the descr of a structured array: refused here, with an error that says so.
  std::string Descr() {
    SkipSpace();
    if (position_ < text_.size() && text_[position_] == '[') {
      throw Error(ErrorCode::kInvalidData, Printable(name_),
                  "given a structured (record) array, expected numbers of one type");
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
std::optional<DataType> FloatOfDescr(const std::string& descr) {
  if (descr == "<f4") return DataType::kF32;
  if (descr == "<f8") return DataType::kF64;
  if (descr == "<f2") return DataType::kF16;
  return std::nullopt;
}

[[noreturn]] void RefuseDescr(const std::string& descr, NpyElements elements,
                              const std::string& name) {
  std::string found = fmt::format("elements of type '{}'", Printable(descr));
  const char kind = descr.size() >= 2 ? descr[1] : '\0';
  if (descr.starts_with(">")) {
    found = fmt::format("big-endian elements ('{}')", Printable(descr));
  } else if (FloatOfDescr(descr)) {
    found = std::string(Name(*FloatOfDescr(descr)));
  } else if (kind == 'i' || kind == 'u') {
    found = fmt::format("integers ('{}')", Printable(descr));
  } else if (kind == 'O') {
    found = "Python objects";
  } else if (kind == 'b') {
    found = "booleans";
  } else if (kind == 'c') {
    found = fmt::format("complex numbers ('{}')", Printable(descr));
  }
  Throw(
      ErrorCode::kInvalidData, Printable(name), "given {}, expected {}", found,
      elements == NpyElements::kBytes ? "unsigned bytes ('|u1')" : "little-endian f16, f32 or f64");
}

std::string Describe(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

}  // namespace

NpyLayout ParseNpyLayout(std::string_view start, size_t total, const std::string& name,
                         NpyElements elements) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidData, Printable(name), what);
  };
  if (!start.starts_with(kNpyMagic)) {
    fail(start.empty() ? "given an empty file, expected a .npy array"
                       : "not an npy file (no NUMPY signature), expected a .npy array");
  }
  constexpr size_t kVersionEnd = kNpyMagic.size() + 2;
  if (start.size() < kVersionEnd + 4) fail("damaged npy file: truncated before its header");
  const int version = static_cast<unsigned char>(start[kNpyMagic.size()]);
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
  const bool is_bytes = (elements != NpyElements::kFloats && header.descr == "|u1") ||
                        (elements == NpyElements::kFloatsOrMask && header.descr == "|b1");
  const std::optional<DataType> type = FloatOfDescr(header.descr);
  if (!is_bytes && (!type || elements == NpyElements::kBytes))
    RefuseDescr(header.descr, elements, name);
  if (header.fortran_order && header.shape.size() > 1) {
    fail("given Fortran (column-major) order, expected C order (save numpy.ascontiguousarray(x))");
  }
  if (header.shape.size() > Shape::kMaxRank) {
    fail(fmt::format("given {} dimensions, expected at most {}", header.shape.size(),
                     Shape::kMaxRank));
  }
  const size_t data_begin = header_begin + header_bytes;
  // A file may have grown since its size was read.
  const size_t data_bytes = std::max(total, start.size()) - data_begin;
  const size_t item = is_bytes ? 1 : static_cast<size_t>(ItemBytes(*type));
  const std::string_view type_name = is_bytes ? "bytes" : Name(*type);
  const size_t room =
      data_bytes / item + 1;  // one more than fits, so that products cannot overflow
  size_t expected = 1;
  const bool empty = std::ranges::find(header.shape, 0) != header.shape.end();
  for (const int64_t size : header.shape) {
    if (!empty && expected > room / static_cast<size_t>(size)) {
      fail(fmt::format("truncated: shape {} of {} needs more than the {} data bytes of the file",
                       Describe(header.shape), type_name, data_bytes));
    }
    expected = empty ? 0 : expected * static_cast<size_t>(size);
  }
  if (expected * item != data_bytes) {
    fail(fmt::format("{}: shape {} of {} needs {} data bytes, the file has {}",
                     expected * item > data_bytes ? "truncated" : "trailing bytes",
                     Describe(header.shape), type_name, expected * item, data_bytes));
  }
  return {.shape = Shape(std::span<const int64_t>(header.shape)),
          .type = is_bytes ? std::nullopt : type,
          .data_begin = data_begin};
}

}  // namespace favor::io
