// Readers of records: each keeps its place in the files and one record in memory.
#include <optional>

#include "core/error_text.h"
#include "data/alphabet.h"
#include "data/fasta.h"
#include "data/input_files.h"
#include "data/picture_source.h"
#include "data/sources.h"
#include "data/text_file.h"

namespace favor::data {
namespace {

class FastaRecords : public RecordReader {
 public:
  FastaRecords(const std::string& path, const DataFormat& format)
      : path_(path), alphabet_(format.alphabet), letters_(LettersOf(alphabet_)), files_(path) {
    RefuseDnaName(path, alphabet_);
    FastaRecords::Rewind();
  }

  bool Next(Record& record) override {
    while (!reader_ || !reader_->Next(fasta_)) {
      if (OpenNext()) continue;
      if (!any_) Throw(ErrorCode::kInvalidData, Printable(path_), "holds no records");
      if (alphabet_ == Alphabet::kProtein) RefuseDnaLetters(path_, counts_, *letters_);
      return false;
    }
    record.name = fasta_.name;
    record.tokens.assign(fasta_.tokens.begin(), fasta_.tokens.end());
    any_ = true;
    for (const uint8_t token : fasta_.tokens) ++counts_[token];
    return true;
  }

  void Rewind() override {
    file_ = 0;
    reader_.reset();
    stream_.reset();
    any_ = false;
    counts_.assign(letters_->letters().size(), 0);
  }

 private:
  bool OpenNext() {
    if (file_ == files_.names().size()) return false;
    reader_.reset();
    stream_.reset(new io::ByteStream(files_.Open(file_++)));
    reader_.emplace(*stream_, *letters_);
    return true;
  }

  std::string path_;
  Alphabet alphabet_;
  std::shared_ptr<const LetterVocabulary> letters_;
  InputFiles files_;
  size_t file_ = 0;  // the next to be opened
  std::unique_ptr<io::ByteStream> stream_;
  std::optional<FastaReader> reader_;
  FastaRecord fasta_;
  std::vector<int64_t> counts_;  // by letter
  bool any_ = false;
};

// Text of all files, one after the other, in pieces.
class TextPieces {
 public:
  // `whole_lines`: a file that ends without a line end gets one.
  TextPieces(const std::string& path, bool whole_lines)
      : path_(path), files_(path), whole_lines_(whole_lines) {}

  // Appends the next piece; false at the end.
  bool AppendTo(std::string& text) {
    for (;;) {
      if (stream_ != nullptr) {
        const std::string_view piece = stream_->Next();
        text += piece;
        any_ = any_ || !piece.empty();
        if (!piece.empty()) {
          ended_ = piece.ends_with('\n');
          return true;
        }
        if (whole_lines_ && !ended_) {
          text += '\n';
          ended_ = true;
          return true;
        }
      }
      if (file_ == files_.names().size()) {
        if (!any_) Throw(ErrorCode::kInvalidData, Printable(path_), "holds no text");
        return false;
      }
      stream_.reset(new io::ByteStream(files_.Open(file_++)));
    }
  }
  void Rewind() {
    file_ = 0;
    stream_.reset();
    any_ = false;
    ended_ = true;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  InputFiles files_;
  size_t file_ = 0;  // the next to be opened
  std::unique_ptr<io::ByteStream> stream_;
  bool whole_lines_, any_ = false;
  bool ended_ = true;  // the last piece, with a line end
};

class LineRecords : public RecordReader {
 public:
  LineRecords(const std::string& path, const RecordOptions& options)
      : text_(path, /*whole_lines=*/true), vocabulary_(VocabularyOf(path, options.format)) {
    const std::vector<int32_t> tokens = vocabulary_->Encode("\n", path);
    if (tokens.empty()) {
      Throw(ErrorCode::kInvalidOption, "windows",
            "the tokenizer of the model leaves out line ends: lines cannot be told apart, expected "
            "windows");
    }
    line_end_ = tokens.back();
  }

  bool Next(Record& record) override {
    size_t end = waiting_.find('\n', read_);
    while (end == std::string::npos) {
      waiting_.erase(0, read_);
      read_ = 0;
      const size_t searched = waiting_.size();
      RefuseLong();
      if (!text_.AppendTo(waiting_)) return false;
      end = waiting_.find('\n', searched);
    }
    ++line_;
    record.name = std::to_string(line_);
    const std::vector<int32_t> tokens =
        vocabulary_->Encode(std::string_view(waiting_).substr(read_, end + 1 - read_),
                            fmt::format("{}, line {}", text_.path(), line_));
    record.tokens.assign(1, line_end_);
    record.tokens.insert(record.tokens.end(), tokens.begin(), tokens.end());
    read_ = end + 1;
    return true;
  }

  void Rewind() override {
    text_.Rewind();
    waiting_.clear();
    read_ = 0;
    line_ = 0;
  }

 private:
  void RefuseLong() const {
    constexpr size_t kLongest = size_t{1} << 26;
    if (waiting_.size() <= kLongest) return;
    Throw(ErrorCode::kInvalidData, Printable(text_.path()),
          "line {} is longer than {} MiB, expected shorter lines (or windows)", line_ + 1,
          kLongest >> 20);
  }

  TextPieces text_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  int32_t line_end_ = 0;
  std::string waiting_;  // text that was read; the lines of its first read_ bytes are done
  size_t read_ = 0;
  int64_t line_ = 0;
};

// The windows that an evaluation of the whole text reads.
class WindowRecords : public RecordReader {
 public:
  WindowRecords(const std::string& path, const RecordOptions& options)
      : text_(path, /*whole_lines=*/false),
        vocabulary_(VocabularyOf(path, options.format)),
        window_(options.window) {}

  bool Next(Record& record) override {
    const auto wanted = static_cast<size_t>(window_) + 1;
    while (tokens_.size() - used_ < wanted && !ended_) Fill();
    const size_t have = std::min(wanted, tokens_.size() - used_);
    if (have < 2) return false;
    record.name = std::to_string(place_);
    const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(used_);
    record.tokens.assign(begin, begin + static_cast<std::ptrdiff_t>(have));
    used_ += have - 1;  // the last one is read again
    place_ += static_cast<int64_t>(have) - 1;
    return true;
  }

  void Rewind() override {
    text_.Rewind();
    waiting_.clear();
    tokens_.clear();
    used_ = 0;
    place_ = 0;
    ended_ = false;
  }

 private:
  // Encodes the lines, or parts of long ones, that are complete.
  void Fill() {
    ended_ = !text_.AppendTo(waiting_);
    size_t size = 0;
    for (size_t cut = 1; cut > 0; size += cut)
      cut = NextCut(std::string_view(waiting_).substr(size), ended_);
    const std::vector<int32_t> tokens =
        vocabulary_->Encode(std::string_view(waiting_).substr(0, size), text_.path());
    waiting_.erase(0, size);
    tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

  TextPieces text_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  int64_t window_;
  std::string waiting_;          // text that is not encoded yet
  std::vector<int32_t> tokens_;  // the first used_ of them are done
  size_t used_ = 0;
  int64_t place_ = 0;
  bool ended_ = false;
};

class PictureRecords : public RecordReader {
 public:
  explicit PictureRecords(const std::string& path) : source_(path) {}

  bool Next(Record& record) override {
    if (next_ == source_.pictures()) return false;
    const std::vector<uint8_t> pixels = source_.Read(next_);
    record.name = source_.NameOf(next_);
    record.tokens.assign(pixels.begin(), pixels.end());
    ++next_;
    return true;
  }
  void Rewind() override { next_ = 0; }
  std::string Shape() const override { return source_.size().Text(); }

 private:
  PictureSource source_;
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<RecordReader> OpenRecordsOf(DataKind kind, const std::string& path,
                                            const RecordOptions& options) {
  if (kind == DataKind::kFasta) return std::make_unique<FastaRecords>(path, options.format);
  if (kind == DataKind::kPictures) return std::make_unique<PictureRecords>(path);
  if (options.window > 0) return std::make_unique<WindowRecords>(path, options);
  return std::make_unique<LineRecords>(path, options);
}

}  // namespace favor::data
