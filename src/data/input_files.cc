#include "data/input_files.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "core/error_text.h"
#include "io/scratch_file.h"

namespace favor::data {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with('.')) continue;
    if (at->is_directory(error)) {
      Throw(ErrorCode::kInvalidData, Printable(folder), "holds the folder '{}', expected files",
            Printable(at->path().filename().string()));
    }
    files.push_back(at->path().string());
  }
  if (error) Throw(ErrorCode::kIo, Printable(folder), "cannot be read: {}", error.message());
  if (files.empty())
    Throw(ErrorCode::kInvalidData, Printable(folder), "given an empty folder, expected files");
  std::ranges::sort(files);
  return files;
}

std::shared_ptr<const io::InputFile> KeepStandardInput() {
  io::InputFile input(dup(STDIN_FILENO), "standard input");
  io::ScratchFile scratch;
  std::vector<std::byte> piece(1 << 20);
  for (size_t count = input.Read(piece); count > 0; count = input.Read(piece))
    scratch.Append(std::span(piece).first(count));
  return scratch.Finish();
}

}  // namespace

std::vector<std::string> FileNames(const std::string& source) {
  std::error_code ignored;
  if (source == io::kStandardInput) return {source};
  if (fs::is_directory(source, ignored)) return FilesIn(source);
  // A name with a comma may also be a single file.
  if (fs::exists(source, ignored) || source.find(',') == std::string::npos) return {source};
  std::vector<std::string> files;
  for (size_t begin = 0; begin <= source.size();) {
    const size_t end = std::min(source.find(',', begin), source.size());
    const std::string part = source.substr(begin, end - begin);
    if (!fs::exists(part, ignored)) {
      Throw(ErrorCode::kIo, Printable(part), "there is no such file, nor one named '{}'",
            Printable(source));
    }
    for (std::string& file : FileNames(part)) files.push_back(std::move(file));
    begin = end + 1;
  }
  return files;
}

InputFiles::InputFiles(const std::string& source) : names_(FileNames(source)) {
  if (source != io::kStandardInput) return;
  standard_input_ = KeepStandardInput();
  names_ = {"standard input"};
}

io::ByteStream InputFiles::Open(size_t index) const {
  if (standard_input_ != nullptr) return {standard_input_, names_[index]};
  return io::ByteStream(names_[index]);
}

std::shared_ptr<const io::InputFile> InputFiles::Plain() const {
  if (names_.size() == 1) {
    if (!Open(0).compressed()) {
      if (standard_input_ != nullptr) return standard_input_;
      return std::make_shared<const io::InputFile>(names_[0]);
    }
  }
  io::ScratchFile scratch;
  for (size_t i = 0; i < names_.size(); ++i) {
    io::ByteStream stream = Open(i);
    for (std::string_view piece = stream.Next(); !piece.empty(); piece = stream.Next())
      scratch.Append(std::as_bytes(std::span(piece)));
  }
  return scratch.Finish();
}

}  // namespace favor::data
