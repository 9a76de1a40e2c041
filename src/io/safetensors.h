// safetensors: 8 bytes of header length, a JSON header, then raw little-endian data.
//   {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
//   24]}, …}
#ifndef FAVOR_IO_SAFETENSORS_H_
#define FAVOR_IO_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace favor::io {

struct SafetensorsEntry {
  std::string dtype;  // F16, BF16, F32, F64, I64
  std::vector<int64_t> shape;
  std::span<const std::byte> data;

  // The elements as T; throws unless dtype is T's. Data in a file need not be aligned: it is
  // copied.
  template <class T>
  std::vector<T> Values(const std::string& who) const;
};

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::map<std::string, SafetensorsEntry> entries;

  const SafetensorsEntry& Entry(const std::string& name,
                                const std::string& who) const;  // throws where it is missing
  const std::string& Metadata(const std::string& key, const std::string& who) const;
};

// Entries point into `bytes`. Checks every length and offset, that entries tile the data without
// gap or overlap, and the checksum (FNV-1a of data and header, in the metadata as "checksum") where
// there is one; a header with a checksum must also be written as SerializeSafetensors does, so that
// no byte of it can change unseen. Throws kInvalidData.
Safetensors ParseSafetensors(std::span<const std::byte> bytes, const std::string& name);

// The file's bytes, with a checksum added to the metadata.
std::string SerializeSafetensors(const Safetensors& contents);
// The same into a file, atomically and without a second copy in memory.
void WriteSafetensors(const std::string& path, const Safetensors& contents);

}  // namespace favor::io

#endif  // FAVOR_IO_SAFETENSORS_H_
