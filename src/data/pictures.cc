// Pictures as sequences of their pixels: raster order, channels of a pixel one after the other.
#include "core/error_text.h"
#include "core/hash.h"
#include "data/picture_source.h"
#include "data/sources.h"

namespace favor::data {

// Pictures are divided by what they hold, or by place: then the last ones are held out, which keeps
// neighbours, such as pieces of one photograph, in one split.
std::unique_ptr<Dataset> OpenPictures(const std::string& path, const DataOptions& options) {
  const DataFormat& format = options.format;
  if (format.split_by == SplitRule::kBlocks)
    Throw(ErrorCode::kInvalidOption, "split_by",
          "given blocks for pictures, expected records or place");
  const PictureSource source(path);
  std::optional<Division> division;
  if (format.split_by == SplitRule::kPlace)
    division = Division::Place(path, source.pictures(), format);
  RecordWriter writer{std::nullopt};
  for (int64_t i = 0; i < source.pictures(); ++i) {
    const std::vector<uint8_t> pixels = source.Read(i);
    writer.Add(division ? division->At(i).split
                        : SplitOf(HashOf(std::as_bytes(std::span(pixels))), format),
               pixels);
  }
  const auto vocabulary = OpenVocabulary("pixels");
  const std::string size = source.size().Text();
  return MakeRecordData({.source = path,
                         .options = options,
                         .vocabulary = vocabulary,
                         .unit = "dimension",
                         .splits = writer.Finish(),
                         .fingerprint = size + " pixels, " + writer.Fingerprint(),
                         .content = size + " pixels, " + writer.Content(),
                         .split_by = division ? SplitRule::kPlace : SplitRule::kRecords,
                         .shape = size,
                         .train_counts = writer.TrainCounts(*vocabulary),
                         .length = source.size().Pixels()});
}

}  // namespace favor::data
