// The kinds of data behind OpenData.
#ifndef FAVOR_DATA_SOURCES_H_
#define FAVOR_DATA_SOURCES_H_

#include <memory>
#include <string>

#include "favor/data.h"

namespace favor::data {

// Throws where a request asks for nothing.
const BatchRequest& CheckedRequest(const BatchRequest& request);

// A file as bytes: tokens 0 … 255, then one that hides a byte and one for padding.
std::unique_ptr<Dataset> OpenText(const std::string& path, const DataOptions& options);

// "copy,length=32,symbols=16" and its like.
std::unique_ptr<Dataset> OpenGenerated(const std::string& name, const DataOptions& options);

}  // namespace favor::data

#endif  // FAVOR_DATA_SOURCES_H_
