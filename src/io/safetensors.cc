#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "core/error_text.h"
#include "core/json.h"
#include "io/atomic_file.h"

namespace favor::io {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own readers

struct Dtype {
  std::string_view name;
  size_t bytes;
  std::optional<DataType> type;  // none: favor does not compute with it
};
constexpr std::array<Dtype, 15> kDtypes = {{{"F32", 4, DataType::kF32},
                                            {"F64", 8, DataType::kF64},
                                            {"F16", 2, DataType::kF16},
                                            {"BF16", 2, DataType::kBF16},
                                            {"BOOL", 1, {}},
                                            {"U8", 1, {}},
                                            {"I8", 1, {}},
                                            {"F8_E4M3", 1, {}},
                                            {"F8_E5M2", 1, {}},
                                            {"I16", 2, {}},
                                            {"U16", 2, {}},
                                            {"I32", 4, {}},
                                            {"U32", 4, {}},
                                            {"I64", 8, {}},
                                            {"U64", 8, {}}}};

// Null if the type is not in the table.
const Dtype* Find(std::string_view name) {
  const auto* found = std::ranges::find(kDtypes, name, &Dtype::name);
  return found == kDtypes.end() ? nullptr : found;
}

std::string_view DtypeOf(DataType type) {
  return std::ranges::find(kDtypes, std::optional(type), &Dtype::type)->name;
}

template <class T>
std::string_view DtypeOf() {
  if constexpr (std::is_same_v<T, int64_t>) {
    return "I64";
  } else {
    return DtypeOf(internal::TypeOf<T>());
  }
}

std::vector<int64_t> Sizes(const Shape& shape) {
  std::vector<int64_t> sizes(static_cast<size_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) sizes[static_cast<size_t>(axis)] = shape[axis];
  return sizes;
}

// FNV-1a.
class Hash {
 public:
  void Add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes)
      value_ = (value_ ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

std::string Dump(const Json& header) {
  return header.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The checksum of the data, which `hash` has already seen, and of the header without its checksum.
std::string Checksum(Hash hash, Json header) {
  if (header.contains("__metadata__")) header["__metadata__"].erase("checksum");
  const std::string text = Dump(header);
  hash.Add(std::as_bytes(std::span(text)));
  return fmt::format("fnv1a:{:016x}", hash.value());
}

// Padded with spaces so that the data begin aligned.
std::string Padded(std::string text) {
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Safetensors Parse() {
    uint64_t header_bytes = 0;
    if (bytes_.size() < 8) Fail("too short for a header");
    std::memcpy(&header_bytes, bytes_.data(), 8);
    if (header_bytes > kMaxHeaderBytes || header_bytes > bytes_.size() - 8) {
      Throw(ErrorCode::kInvalidData, Printable(name_),
            "not a safetensors file, or only its beginning: its header would be longer than the "
            "file");
    }
    const auto* text = reinterpret_cast<const char*>(bytes_.data()) + 8;
    std::string problem;
    const Json header = ParseJson(std::string_view(text, header_bytes), &problem);
    if (!header.is_object())
      Fail("its header is not a JSON object" + (problem.empty() ? "" : ": " + problem));
    data_ = bytes_.subspan(8 + header_bytes);
    Safetensors result;
    for (const auto& [key, value] : header.items()) {
      if (key == "__metadata__") {
        ReadMetadata(value, result);
      } else {
        result.entries.emplace(key, ReadEntry(key, value));
      }
    }
    CheckTiling(result);
    const auto checksum = result.metadata.find("checksum");
    if (checksum != result.metadata.end()) {
      Hash hash;
      hash.Add(data_);
      if (checksum->second != Checksum(hash, header) ||
          std::string_view(text, header_bytes) != Padded(Dump(header)))
        Fail("its checksum does not match its contents");
    }
    return result;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidData, Printable(name_), "damaged safetensors file: " + what);
  }

  void ReadMetadata(const Json& value, Safetensors& result) const {
    if (!value.is_object()) Fail("__metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) Fail("__metadata__ holds something other than text");
      result.metadata[key] = text.get<std::string>();
    }
  }

  SafetensorsEntry ReadEntry(const std::string& key, const Json& value) const {
    const auto bad = [&](const char* what) {
      Fail(fmt::format("tensor '{}': {}", Printable(key), what));
    };
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
      bad("dtype, shape or data_offsets is missing");
    }
    const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
    if (!dtype.is_string()) bad("dtype is not a name");
    SafetensorsEntry entry{.dtype = dtype.get<std::string>(), .shape = {}, .data = {}};
    size_t elements = 1;
    if (!shape.is_array() || shape.size() > 16) bad("shape is not a list of sizes");
    for (const Json& size : shape) {
      if (!size.is_number_unsigned()) bad("shape is not a list of sizes");
      const auto count = size.get<uint64_t>();
      if (count > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
          (count != 0 && elements > 8 * data_.size() / count))  // a bit is the smallest element
        bad("shape is larger than the file");
      elements *= count;
      entry.shape.push_back(static_cast<int64_t>(count));
    }
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      bad("data_offsets are not two numbers");
    }
    const auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || end > data_.size()) bad("data_offsets are outside the file");
    const Dtype* known = Find(entry.dtype);
    if (known != nullptr && end - begin != elements * known->bytes)
      bad("data_offsets and shape disagree");
    entry.data = data_.subspan(begin, end - begin);
    return entry;
  }

  void CheckTiling(const Safetensors& result) const {
    std::vector<std::pair<const std::byte*, size_t>> pieces;
    for (const auto& [key, entry] : result.entries)
      pieces.emplace_back(entry.data.data(), entry.data.size());
    std::ranges::sort(pieces);
    const std::byte* next = data_.data();
    for (const auto& [begin, size] : pieces) {
      if (begin != next) Fail("tensors overlap or leave gaps");
      next += size;
    }
    if (next != data_.data() + data_.size()) Fail("bytes after the last tensor");
  }

  std::span<const std::byte> bytes_, data_;
  const std::string& name_;
};

}  // namespace

std::optional<DataType> SafetensorsEntry::type() const {
  const Dtype* known = Find(dtype);
  return known == nullptr ? std::nullopt : known->type;
}

template <class T>
std::vector<T> SafetensorsEntry::Values(const std::string& who) const {
  if (dtype != DtypeOf<T>()) {
    Throw(ErrorCode::kInvalidData, Printable(who), "given a tensor of type {}, expected {}",
          Printable(dtype), DtypeOf<T>());
  }
  std::vector<T> values(data.size() / sizeof(T));
  if (!data.empty()) std::memcpy(values.data(), data.data(), data.size());
  return values;
}

template std::vector<float> SafetensorsEntry::Values(const std::string&) const;
template std::vector<double> SafetensorsEntry::Values(const std::string&) const;
template std::vector<int64_t> SafetensorsEntry::Values(const std::string&) const;

void SafetensorsEntry::CheckReadable(const Shape& expected, const std::string& who) const {
  if (type() && shape == Sizes(expected)) return;
  Throw(ErrorCode::kInvalidData, Printable(who), "given {} [{}], expected floats {}",
        Printable(dtype), fmt::join(shape, ", "), expected.ToString());
}

void SafetensorsEntry::ReadInto(View to, const std::string& who) const {
  CheckReadable(to.shape(), who);
  if (data.empty()) return;
  if (to.type() == *type() && to.IsContiguous()) {
    std::memcpy(to.data(), data.data(), data.size());
    return;
  }
  Tensor aligned(to.shape(), *type());
  std::memcpy(aligned.view().data(), data.data(), data.size());
  Copy(aligned, to);
}

SafetensorsEntry EntryOf(ConstView values) {
  if (!values.IsContiguous() || values.device().type != DeviceType::kCpu)
    Throw(ErrorCode::kInvalidData, "safetensors", "expected a row-major array on the cpu");
  const auto bytes = static_cast<size_t>(values.shape().Elements() * ItemBytes(values.type()));
  return {.dtype = std::string(DtypeOf(values.type())),
          .shape = Sizes(values.shape()),
          .data = std::span(static_cast<const std::byte*>(values.data()), bytes)};
}

template <class T>
void Safetensors::Add(const std::string& name, std::vector<int64_t> shape, std::vector<T> values) {
  const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
  entries[name] = {std::string(DtypeOf<T>()), std::move(shape), std::as_bytes(std::span(*kept))};
  owned.push_back(kept);
}

template void Safetensors::Add(const std::string&, std::vector<int64_t>, std::vector<float>);
template void Safetensors::Add(const std::string&, std::vector<int64_t>, std::vector<double>);
template void Safetensors::Add(const std::string&, std::vector<int64_t>, std::vector<int64_t>);

const SafetensorsEntry& Safetensors::Entry(const std::string& name, const std::string& who) const {
  const auto found = entries.find(name);
  if (found == entries.end())
    Throw(ErrorCode::kInvalidData, Printable(who), "lacks the tensor '{}'", name);
  return found->second;
}

const std::string& Safetensors::Metadata(const std::string& key, const std::string& who) const {
  const auto found = metadata.find(key);
  if (found == metadata.end())
    Throw(ErrorCode::kInvalidData, Printable(who), "lacks '{}' in its metadata", key);
  return found->second;
}

Safetensors ParseSafetensors(std::span<const std::byte> bytes, const std::string& name) {
  return Parser(bytes, name).Parse();
}

namespace {

// Everything before the data.
std::string HeaderOf(const Safetensors& contents) {
  Json header;
  header["__metadata__"] = contents.metadata;
  size_t end = 0;
  Hash hash;
  for (const auto& [key, entry] : contents.entries) {
    const size_t begin = end;
    end += entry.data.size();
    hash.Add(entry.data);
    header[key] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {begin, end}}};
  }
  header["__metadata__"]["checksum"] = Checksum(hash, header);
  const std::string text = Padded(Dump(header));
  std::string file(8, '\0');
  const uint64_t length = text.size();
  std::memcpy(file.data(), &length, 8);
  return file + text;
}

}  // namespace

std::string SerializeSafetensors(const Safetensors& contents) {
  std::string file = HeaderOf(contents);
  for (const auto& [key, entry] : contents.entries)
    file.append(reinterpret_cast<const char*>(entry.data.data()), entry.data.size());
  return file;
}

void WriteSafetensors(const std::string& path, const Safetensors& contents) {
  AtomicFile file(path);
  file.Write(HeaderOf(contents));
  for (const auto& [key, entry] : contents.entries) file.Write(entry.data);
  file.Commit();
}

}  // namespace favor::io
