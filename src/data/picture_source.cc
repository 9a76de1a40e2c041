#include "data/picture_source.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "core/error_text.h"
#include "data/input_files.h"
#include "io/png.h"

namespace favor::data {
namespace {

namespace fs = std::filesystem;

PictureSize SizeOf(const io::Picture& picture) {
  return {picture.height, picture.width, picture.channels};
}

// The pictures of a folder by name; anything else in it is an error.
std::vector<std::string> PicturesIn(const std::string& folder) {
  std::vector<std::string> files = FileNames(folder);
  std::error_code error;
  for (const std::string& file : files) {
    std::string extension = fs::path(file).extension().string();
    std::ranges::transform(extension, extension.begin(),
                           [](unsigned char c) { return std::tolower(c); });
    if (extension != ".png" || !fs::is_regular_file(file, error)) {
      Throw(ErrorCode::kInvalidData, Printable(folder), "holds '{}', expected only PNG files",
            Printable(fs::path(file).filename().string()));
    }
  }
  return files;
}

bool IsArray(const std::string& path) {
  io::InputFile file = io::OpenRegularFile(path);
  std::string start(io::kNpyMagic.size(), '\0');
  start.resize(file.Read(std::as_writable_bytes(std::span(start))));
  return start == io::kNpyMagic || path.ends_with(".npy");
}

}  // namespace

PictureSource::PictureSource(const std::string& path) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  if (!folder && IsArray(path)) {
    OpenArray(path);
    return;
  }
  files_ = folder ? PicturesIn(path) : std::vector{path};
  pictures_ = std::ssize(files_);
  size_ = SizeOf(io::ReadPng(files_.front()));
}

void PictureSource::OpenArray(const std::string& path) {
  array_.emplace(path);
  const Shape& shape = array_->shape();
  const bool plain = shape.rank() == 3;
  const auto refuse = [&](std::string_view expected) {
    Throw(ErrorCode::kInvalidData, Printable(path), "given shape {}, expected {}", shape.ToString(),
          expected);
  };
  if (!plain && (shape.rank() != 4 || (shape[3] != 1 && shape[3] != 3)))
    refuse("[pictures, height, width] or [pictures, height, width, 1 or 3 channels]");
  pictures_ = shape[0];
  size_ = {shape[1], shape[2], plain ? 1 : shape[3]};
  if (shape.Elements() == 0) refuse("at least one picture of one pixel");
  if (size_.Pixels() > io::kMostPictureBytes)
    refuse(fmt::format("pictures of at most {} bytes", io::kMostPictureBytes));
}

std::vector<uint8_t> PictureSource::Read(int64_t picture) const {
  if (array_) {
    std::vector<uint8_t> pixels(static_cast<size_t>(size_.Pixels()));
    array_->Read(picture * size_.Pixels(), pixels);
    return pixels;
  }
  const std::string& file = files_[static_cast<size_t>(picture)];
  io::Picture read = io::ReadPng(file);
  if (SizeOf(read) != size_) {
    Throw(ErrorCode::kInvalidData, Printable(file),
          "given a picture of {} (height, width, channels), expected {} as in '{}'",
          SizeOf(read).Text(), size_.Text(), Printable(files_.front()));
  }
  return std::move(read.pixels);
}

std::string PictureSource::NameOf(int64_t picture) const {
  if (array_) return std::to_string(picture);
  return fs::path(files_[static_cast<size_t>(picture)]).filename().string();
}

}  // namespace favor::data
