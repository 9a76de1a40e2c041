// The kinds of data behind OpenData.
#ifndef FAVOR_DATA_SOURCES_H_
#define FAVOR_DATA_SOURCES_H_

#include <memory>
#include <string>

#include "data/token_store.h"
#include "favor/data.h"

namespace favor::data {

// Throws where a request asks for nothing.
const BatchRequest& CheckedRequest(const BatchRequest& request);

// What both kinds of stored data know.
struct Stored {
  std::string source;  // for errors
  DataOptions options;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::string_view unit;  // that a token stands for
  StoredSplits splits;
  std::string fingerprint;
  int64_t length = 0;  // of every sequence; 0: the caller's choice
};

// Hides tokens of a batch that holds the sequences of a request.
void MaskRows(const Stored& stored, Split split, const BatchRequest& request, Batch& batch);

// Sequences are windows of a stream.
std::unique_ptr<Dataset> MakeStreamData(Stored stored);
// Sequences are records, each behind a begin token and cut at the length.
std::unique_ptr<Dataset> MakeRecordData(Stored stored);

std::unique_ptr<Dataset> OpenText(const std::string& path, const DataOptions& options);
std::unique_ptr<Dataset> OpenFasta(const std::string& path, const DataOptions& options);
// A PNG file, a folder of them, or an npy of bytes [pictures, height, width(, channels)].
std::unique_ptr<Dataset> OpenPictures(const std::string& path, const DataOptions& options);

// "copy,length=32,symbols=16" and its like.
std::unique_ptr<Dataset> OpenGenerated(const std::string& name, const DataOptions& options);
std::shared_ptr<const Vocabulary> GeneratedVocabulary(const std::string& name);

}  // namespace favor::data

#endif  // FAVOR_DATA_SOURCES_H_
