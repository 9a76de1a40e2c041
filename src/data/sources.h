// The kinds of data that OpenData opens.
#ifndef FAVOR_DATA_SOURCES_H_
#define FAVOR_DATA_SOURCES_H_

#include <memory>
#include <string>

#include "data/stored_data.h"
#include "favor/data.h"
#include "favor/records.h"

namespace favor::data {

// Throws if a request is empty or negative.
const BatchRequest& CheckedRequest(const BatchRequest& request);

// Sequences are windows of a stream.
std::unique_ptr<Dataset> MakeStreamData(Stored stored);
// Sequences are records, each after a begin token and cut at the length.
std::unique_ptr<Dataset> MakeRecordData(Stored stored);

std::unique_ptr<Dataset> OpenText(const std::string& path, const DataOptions& options);
std::unique_ptr<Dataset> OpenFasta(const std::string& path, const DataOptions& options);
// A PNG file, a folder of them, or an npy of bytes [pictures, height, width(, channels)].
std::unique_ptr<Dataset> OpenPictures(const std::string& path, const DataOptions& options);

// The records of a source of that kind.
std::unique_ptr<RecordReader> OpenRecordsOf(DataKind kind, const std::string& path,
                                            const RecordOptions& options);

// A generated task, such as "copy,length=32,symbols=16".
std::unique_ptr<Dataset> OpenGenerated(const std::string& name, const DataOptions& options);
std::shared_ptr<const Vocabulary> GeneratedVocabulary(const std::string& name);

}  // namespace favor::data

#endif  // FAVOR_DATA_SOURCES_H_
