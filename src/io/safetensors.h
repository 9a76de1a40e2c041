// safetensors: 8 bytes of header length, a JSON header, then raw little-endian data.
//   {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
//   24]}, …}
#ifndef FAVOR_IO_SAFETENSORS_H_
#define FAVOR_IO_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "favor/tensor.h"

namespace favor::io {

struct SafetensorsEntry {
  std::string dtype;  // F32, I64, BOOL, …; in foreign files also names that favor does not know
  std::vector<int64_t> shape;
  std::span<const std::byte> data;

  // None if the elements are not floats that favor knows.
  std::optional<DataType> type() const;
  // The elements as T (float, double, int64_t); throws unless dtype is T's. Data in a file need not
  // be aligned: it is copied.
  template <class T>
  std::vector<T> Values(const std::string& who) const;
  // Reads the elements, converted to the type of `to`. Throws kInvalidData if the shape differs or
  // the elements are not floats.
  void ReadInto(View to, const std::string& who) const;
  void CheckReadable(const Shape& expected, const std::string& who) const;  // throws likewise
};

// An entry for row-major memory on the CPU, which must outlive it.
SafetensorsEntry EntryOf(ConstView values);

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::map<std::string, SafetensorsEntry> entries;
  std::vector<std::shared_ptr<const void>> owned;  // data of entries that has no other owner

  // Adds an entry with values that this object owns.
  template <class T>
  void Add(const std::string& name, std::vector<int64_t> shape, std::vector<T> values);

  const SafetensorsEntry& Entry(const std::string& name,
                                const std::string& who) const;  // throws if it is missing
  const std::string& Metadata(const std::string& key, const std::string& who) const;
};

// Entries point into `bytes`. Checks every length and offset (for elements of a type that it does
// not know, only that they lie in the file), that entries tile the data without gap or overlap, and
// the checksum (FNV-1a of data and header, in the metadata as "checksum") if there is one; a header
// with a checksum must also be written as SerializeSafetensors does, so that no byte of it can
// change undetected. Throws kInvalidData.
Safetensors ParseSafetensors(std::span<const std::byte> bytes, const std::string& name);

// The file's bytes, with a checksum added to the metadata.
std::string SerializeSafetensors(const Safetensors& contents);
// Writes the same to a file, atomically and without a second copy in memory.
void WriteSafetensors(const std::string& path, const Safetensors& contents);

}  // namespace favor::io

#endif  // FAVOR_IO_SAFETENSORS_H_
