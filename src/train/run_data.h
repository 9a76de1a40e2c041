// What a checkpoint says about the data of its model, and how that data is found again.
#ifndef FAVOR_TRAIN_RUN_DATA_H_
#define FAVOR_TRAIN_RUN_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/json_fwd.h"
#include "favor/train.h"
#include "models/checkpoint.h"

namespace favor::train {

// Throws kInvalidOption if the config names no data.
void CheckDataGiven(const RunConfig& config);

// Whether the model of a run reads sequences like a decoder: if it predicts the next token, or
// learns labels from the weights of one that did. Models that learn labels from scratch are
// encoders.
bool ReadsLikeADecoder(const RunConfig& config);
// How a run opens its data.
DataOptions OptionsOf(const RunConfig& config);

// A file that a format names. Runs keep a copy of most, so that the model's tokens, its splits and
// its labels stay known.
struct FormatFile {
  const char* key;
  std::string DataFormat::*path;
  std::string_view copy;  // name of the copy; empty: none
};
inline constexpr FormatFile kFormatFiles[] = {
    {"tokenizer", &DataFormat::tokenizer, models::kTokenizerName},
    {"held_out", &DataFormat::held_out, models::kHeldOutName},
    {"clusters", &DataFormat::clusters, models::kClustersName},
    {"labels", &DataFormat::labels, models::kLabelsName},
    {"valid_data", &DataFormat::valid_data, ""},
    {"test_data", &DataFormat::test_data, ""}};

// Part of a checkpoint's state. Older checkpoints have less of it: fields are empty then.
struct DataDescription {
  std::string fingerprint, content, shape;  // as given by Dataset
  std::string vocabulary;                   // fingerprint of the vocabulary
  // The path from the checkpoint's folder to the data, if the run's own path is relative.
  std::string from_here;
  // Tokens that were targets of training, as a list of ranges: "0-3,15".
  std::string shown;
  // What classes stand for, or how numbers are scaled; only of data with labels.
  std::vector<std::string> classes;
  std::optional<LabelScale> scale;

  // `path`: where the checkpoint is written.
  static DataDescription Of(const Dataset& data, const std::string& source,
                            const std::string& path);
  Json ToJson() const;
  static DataDescription FromJson(const Json& state);
  // Tokens below `vocab` that were never targets in training; empty if that is not known.
  std::vector<int32_t> Unseen(int64_t vocab) const;
};

// The token before the first of a sequence: the begin token for records; for joined records the end
// token, which stands between them; none if training showed neither.
std::optional<int32_t> StartToken(const RunConfig& config, const Vocabulary& vocabulary,
                                  const DataDescription& record);

// Replaces the paths of files by the run's own copies, if its folder has them.
void UseCopies(const std::string& folder, DataFormat& format);

// The data of a run, wherever it is now: at `hint` if one is given, otherwise where the config
// says, relative to the current folder or to the folder of the run. Paths are hints: data with the
// fingerprint of `record` is preferred. `hint` may be other data: lists of names are then left out.
std::shared_ptr<const Dataset> FindData(const RunConfig& config, const std::string& folder,
                                        const DataDescription& record, const std::string& hint);

}  // namespace favor::train

#endif  // FAVOR_TRAIN_RUN_DATA_H_
