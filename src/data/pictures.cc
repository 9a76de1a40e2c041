// Pictures as sequences of their pixels: raster order, channels of a pixel one after the other.
#include <algorithm>
#include <filesystem>

#include "core/error_text.h"
#include "core/hash.h"
#include "data/input_files.h"
#include "data/picture_size.h"
#include "data/sources.h"
#include "io/npy_bytes.h"
#include "io/png.h"

namespace favor::data {
namespace {

namespace fs = std::filesystem;

// Takes pictures one at a time and divides them by what they hold, or by place: then the last ones
// are held out, which keeps neighbours, such as pieces of one photograph, in one split.
class PictureWriter {
 public:
  PictureWriter(const std::string& path, int64_t pictures, const DataFormat& format)
      : format_(format) {
    if (format.split_by == SplitRule::kBlocks)
      Throw(ErrorCode::kInvalidOption, "split_by",
            "given blocks for pictures, expected records or place");
    if (format.split_by == SplitRule::kPlace) division_ = Division::Place(path, pictures, format);
  }

  void Add(std::span<const uint8_t> pixels) {
    const Split split = division_ ? division_->At(pictures_).split
                                  : SplitOf(HashOf(std::as_bytes(pixels)), format_);
    writer_.Add(split, pixels);
    ++pictures_;
  }
  std::unique_ptr<Dataset> Finish(const std::string& path, const DataOptions& options,
                                  const PictureSize& size) {
    const auto vocabulary = OpenVocabulary("pixels");
    return MakeRecordData({.source = path,
                           .options = options,
                           .vocabulary = vocabulary,
                           .unit = "dimension",
                           .splits = writer_.Finish(),
                           .fingerprint = size.Text() + " pixels, " + writer_.Fingerprint(),
                           .content = size.Text() + " pixels, " + writer_.Content(),
                           .split_by = division_ ? SplitRule::kPlace : SplitRule::kRecords,
                           .shape = size.Text(),
                           .train_counts = writer_.TrainCounts(*vocabulary),
                           .length = size.Pixels()});
  }

 private:
  const DataFormat& format_;
  std::optional<Division> division_;
  int64_t pictures_ = 0;
  RecordWriter writer_{std::nullopt};
};

std::unique_ptr<Dataset> OpenFiles(const std::string& path, const std::vector<std::string>& files,
                                   const DataOptions& options) {
  PictureWriter writer(path, std::ssize(files), options.format);
  PictureSize size;
  for (const std::string& file : files) {
    const io::Picture picture = io::ReadPng(file);
    const PictureSize own{picture.height, picture.width, picture.channels};
    if (size == PictureSize{}) size = own;
    if (own != size) {
      Throw(ErrorCode::kInvalidData, Printable(file),
            "given a picture of {} (height, width, channels), expected {} as in '{}'", own.Text(),
            size.Text(), Printable(files.front()));
    }
    writer.Add(picture.pixels);
  }
  return writer.Finish(path, options, size);
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

std::unique_ptr<Dataset> OpenArray(const std::string& path, const DataOptions& options) {
  const io::NpyBytes array(path);
  const Shape& shape = array.shape();
  const bool plain = shape.rank() == 3;
  const auto refuse = [&](std::string_view expected) {
    Throw(ErrorCode::kInvalidData, Printable(path), "given shape {}, expected {}", shape.ToString(),
          expected);
  };
  if (!plain && (shape.rank() != 4 || (shape[3] != 1 && shape[3] != 3)))
    refuse("[pictures, height, width] or [pictures, height, width, 1 or 3 channels]");
  const PictureSize size{shape[1], shape[2], plain ? 1 : shape[3]};
  if (shape.Elements() == 0) refuse("at least one picture of one pixel");
  if (size.Pixels() > io::kMostPictureBytes)
    refuse(fmt::format("pictures of at most {} bytes", io::kMostPictureBytes));
  PictureWriter writer(path, shape[0], options.format);
  std::vector<uint8_t> pixels(static_cast<size_t>(size.Pixels()));
  for (int64_t i = 0; i < shape[0]; ++i) {
    array.Read(i * size.Pixels(), pixels);
    writer.Add(pixels);
  }
  return writer.Finish(path, options, size);
}

}  // namespace

std::unique_ptr<Dataset> OpenPictures(const std::string& path, const DataOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return OpenFiles(path, PicturesIn(path), options);
  io::InputFile file = io::OpenRegularFile(path);
  std::string start(io::kNpyMagic.size(), '\0');
  start.resize(file.Read(std::as_writable_bytes(std::span(start))));
  if (start == io::kNpyMagic || path.ends_with(".npy")) return OpenArray(path, options);
  return OpenFiles(path, {path}, options);
}

}  // namespace favor::data
