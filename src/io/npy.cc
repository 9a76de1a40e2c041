#include "favor/npy.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/error_text.h"
#include "io/input_file.h"
#include "io/npy_layout.h"
#include "io/npy_writer.h"

namespace favor {

Tensor ParseNpy(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const io::NpyLayout layout =
      io::ParseNpyLayout(text, bytes.size(), name, io::NpyElements::kFloats);
  Tensor tensor(layout.shape, *layout.type);
  const auto data = bytes.subspan(layout.data_begin);
  if (!data.empty()) std::memcpy(tensor.view().data(), data.data(), data.size());
  return tensor;
}

Tensor ReadNpy(const std::string& path) {
  io::InputFile file(path);
  std::string start(io::kNpyStartBytes, '\0');
  start.resize(file.Read(std::as_writable_bytes(std::span(start))));
  if (!file.Size()) {  // a pipe: its size is known only at its end
    if (start.starts_with(io::kNpyMagic)) start += file.ReadRest();  // not all of /dev/zero, say
    return ParseNpy(std::as_bytes(std::span(start)), path);
  }
  const io::NpyLayout layout =
      io::ParseNpyLayout(start, *file.Size(), path, io::NpyElements::kFloats);
  Tensor tensor(layout.shape, *layout.type);
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
  io::InputFile file(path);
  std::string bytes(io::kNpyStartBytes, '\0');
  bytes.resize(file.Read(std::as_writable_bytes(std::span(bytes))));
  if (bytes.starts_with(io::kNpyMagic)) bytes += file.ReadRest();  // not all of /dev/zero, say
  const io::NpyLayout layout =
      io::ParseNpyLayout(bytes, bytes.size(), path, io::NpyElements::kFloatsOrMask);
  if (layout.type) return ParseNpy(std::as_bytes(std::span(bytes)), path).To(DataType::kF32);
  Tensor mask(layout.shape);
  for (int64_t i = 0; i < layout.shape.Elements(); ++i) {
    mask.Data<float>()[i] =
        static_cast<unsigned char>(bytes[layout.data_begin + static_cast<size_t>(i)]);
  }
  return mask;
}

void WriteNpy(const std::string& path, ConstView array) {
  const DataType type = array.type() == DataType::kBF16 ? DataType::kF32 : array.type();
  Tensor packed;
  if (type != array.type() || !array.IsContiguous()) {
    packed = Tensor(array.shape(), type);
    Copy(array, packed.view());
    array = std::as_const(packed).view();
  }
  io::NpyWriter writer(path, array.shape(), type);
  writer.Write({static_cast<const std::byte*>(array.data()),
                static_cast<size_t>(array.shape().Elements() * ItemBytes(type))});
  writer.Commit();
}

namespace io {

NpyWriter::NpyWriter(const std::string& path, const Shape& shape, DataType type)
    : path_(path), file_(path), left_(shape.Elements() * ItemBytes(type)) {
  const std::string_view descr = type == DataType::kF32   ? "<f4"
                                 : type == DataType::kF64 ? "<f8"
                                                          : "<f2";
  std::string sizes;
  for (int axis = 0; axis < shape.rank(); ++axis) sizes += fmt::format("{}, ", shape[axis]);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, sizes);
  // The data begins at a multiple of 64 bytes, so that a reader may map it.
  constexpr size_t kPrefix = 10;
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header += '\n';
  file_.Write(kNpyMagic);
  const char prefix[4] = {1, 0, static_cast<char>(header.size() & 0xff),
                          static_cast<char>(header.size() >> 8)};
  file_.Write(std::string_view(prefix, 4));
  file_.Write(header);
}

void NpyWriter::Write(std::span<const std::byte> elements) {
  file_.Write(elements);
  left_ -= std::ssize(elements);
}

void NpyWriter::Commit() {
  if (left_ != 0) {
    Throw(ErrorCode::kIo, Printable(path_), "{} bytes {} than its shape has: nothing is written",
          std::abs(left_), left_ > 0 ? "fewer" : "more");
  }
  file_.Commit();
}

}  // namespace io
}  // namespace favor
