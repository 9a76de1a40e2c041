// FASTA files as data, divided by what records hold, by place, or by a list of names.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "core/error_text.h"
#include "core/hash.h"
#include "core/notice.h"
#include "data/clusters.h"
#include "data/fasta.h"
#include "data/input_files.h"
#include "data/sources.h"

namespace favor::data {
namespace {

// A hash of a record's name and its file: names need not differ between files.
uint64_t HashOfName(const std::string& name, size_t file) {
  Hasher hasher;
  hasher.Add(std::as_bytes(std::span(name)));
  hasher.Add(file);
  return hasher.Value();
}

template <class Visit>
void ForEachRecord(const InputFiles& files, const LetterVocabulary& alphabet, const Visit& visit) {
  for (size_t i = 0; i < files.names().size(); ++i) {
    io::ByteStream stream = files.Open(i);
    FastaReader reader(stream, alphabet);
    for (FastaRecord record; reader.Next(record);) visit(record, i);
  }
}

// Reads a list of names, one per line.
std::set<std::string> ReadNames(const std::string& path) {
  std::set<std::string> names;
  const std::string text = io::ReadRegularFile(path);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string name = text.substr(at, end - at);
    if (name.ends_with('\r')) name.pop_back();
    if (!name.empty()) names.insert(name.starts_with('>') ? name.substr(1) : name);
    at = end + 1;
  }
  if (names.empty()) Throw(ErrorCode::kInvalidData, Printable(path), "holds no names of records");
  return names;
}

// Hashes of the sequences that a list holds out: equal ones stay together, whatever their names.
std::unordered_set<uint64_t> HeldOut(const InputFiles& files, const std::string& path,
                                     const std::string& list, const LetterVocabulary& alphabet) {
  std::unordered_set<uint64_t> hashes;
  std::set<std::string> missing = ReadNames(list);
  const std::set<std::string> names = missing;
  ForEachRecord(files, alphabet, [&](const FastaRecord& record, size_t) {
    if (!names.contains(record.name)) return;
    missing.erase(record.name);
    hashes.insert(HashOf(std::as_bytes(std::span(record.tokens))));
  });
  if (!missing.empty()) {
    Throw(ErrorCode::kInvalidData, Printable(list),
          "names '{}', which is not a record of '{}' ({} of {} names are not there)",
          Printable(*missing.begin()), Printable(path), missing.size(), names.size());
  }
  return hashes;
}

// Equal hashes say that some name occurs twice in a file; reading it again finds out which.
void RefuseTwins(const InputFiles& files, const LetterVocabulary& alphabet,
                 std::vector<uint64_t> hashes) {
  std::ranges::sort(hashes);
  std::unordered_set<uint64_t> twice;
  for (size_t i = 1; i < hashes.size(); ++i) {
    if (hashes[i] == hashes[i - 1]) twice.insert(hashes[i]);
  }
  if (twice.empty()) return;
  std::map<std::pair<size_t, std::string>, int64_t> lines;
  ForEachRecord(files, alphabet, [&](const FastaRecord& record, size_t file) {
    if (!twice.contains(HashOfName(record.name, file))) return;
    const auto [found, fresh] = lines.emplace(std::pair(file, record.name), record.line);
    if (fresh) return;
    Throw(ErrorCode::kInvalidData, Printable(files.names()[file]),
          "two records have the name '{}': line {} and line {}", Printable(record.name),
          found->second, record.line);
  });
}

// If records are few and long, splits of whole records are too uneven to say much.
constexpr int64_t kFewRecords = 200;

struct Size {
  int64_t records = 0, tokens = 0;
};

// Reads the files and writes their records to splits.
class FastaStore {
 public:
  FastaStore(const std::string& path, const InputFiles& files, const DataFormat& format,
             const LetterVocabulary& alphabet)
      : path_(path), files_(files), format_(format), alphabet_(alphabet) {
    if (!format_.held_out.empty()) held_out_ = HeldOut(files, path, format_.held_out, alphabet);
  }

  // Divided by what records hold.
  RecordWriter ByRecords() {
    RecordWriter writer(End());
    Read([&](const FastaRecord& record,
             uint64_t hash) { writer.Add(SplitOf(hash, format_), record.tokens); },
         writer);
    return writer;
  }
  // Divided by the clusters of records.
  RecordWriter ByClusters() {
    const Clusters clusters(format_.clusters);
    RecordWriter writer(End());
    std::string first;  // record that is in no cluster
    int64_t missing = 0;
    Read(
        [&](const FastaRecord& record, uint64_t) {
          const auto cluster = clusters.Of(record.name);
          if (!cluster && missing++ == 0) first = record.name;
          writer.Add(cluster ? SplitOf(*cluster, format_) : Split::kTrain, record.tokens);
        },
        writer);
    if (missing > 0) {
      Throw(ErrorCode::kInvalidData, Printable(format_.clusters),
            "has no cluster for '{}' of '{}' ({} of {} records; programs may shorten names: CD-HIT "
            "writes whole ones with -d 0)",
            Printable(first), Printable(path_), missing, size_.records);
    }
    return writer;
  }
  // Each split from its own files.
  RecordWriter ByFiles() {
    RecordWriter writer(End());
    DataFormat shares = format_;
    shares.test = 0;
    if (!format_.valid_data.empty()) shares.valid = 0;
    std::unordered_set<uint64_t> learned;
    Read(
        [&](const FastaRecord& record, uint64_t hash) {
          const Split split = SplitOf(hash, shares);
          if (split == Split::kTrain) learned.insert(hash);
          writer.Add(split, record.tokens);
        },
        writer);
    for (const Split split : {Split::kValid, Split::kTest}) {
      const std::string& path = split == Split::kValid ? format_.valid_data : format_.test_data;
      if (path.empty()) continue;
      int64_t known = 0;
      const InputFiles files(path);
      FastaStore store(path, files, format_, alphabet_);
      store.Read(
          [&](const FastaRecord& record, uint64_t hash) {
            known += learned.contains(hash) ? 1 : 0;
            writer.Add(split, record.tokens);
          },
          writer);
      if (known > 0) {
        Warn(Printable(path), "{} of its {} records are also in '{}', which is learned from", known,
             store.size().records, Printable(path_));
      }
    }
    return writer;
  }
  // Divided by place in all records that are not held out by name.
  RecordWriter ByPlace(bool blocks) {
    if (size_.records == 0) {
      RecordWriter ignored(End());
      Read([](const FastaRecord&, uint64_t) {}, ignored);
    }
    const int64_t tokens = size_.tokens + (End() ? size_.records : 0);
    const Division division =
        blocks ? Division::Blocks(path_, tokens, format_) : Division::Place(path_, tokens, format_);
    RecordWriter writer(End());
    Read([&](const FastaRecord& record, uint64_t) { writer.Add(division, record.tokens); }, writer);
    return writer;
  }
  // The size of what was read last, without records that are held out by name.
  const Size& size() const { return size_; }

 private:
  std::optional<int32_t> End() const {
    return format_.layout == Layout::kJoin ? alphabet_.special().end : std::nullopt;
  }

  template <class Visit>
  void Read(const Visit& visit, RecordWriter& writer) {
    size_ = {};
    std::vector<uint64_t> names;
    ForEachRecord(files_, alphabet_, [&](const FastaRecord& record, size_t file) {
      names.push_back(HashOfName(record.name, file));
      const uint64_t hash = HashOf(std::as_bytes(std::span(record.tokens)));
      if (held_out_.contains(hash)) return writer.Add(Split::kHeldOut, record.tokens);
      ++size_.records;
      size_.tokens += std::ssize(record.tokens);
      visit(record, hash);
    });
    if (names.empty()) Throw(ErrorCode::kInvalidData, Printable(path_), "holds no records");
    RefuseTwins(files_, alphabet_, std::move(names));
  }

  const std::string& path_;
  const InputFiles& files_;
  const DataFormat& format_;
  const LetterVocabulary& alphabet_;
  std::unordered_set<uint64_t> held_out_;
  Size size_;
};

// The rule that the format names, or that follows from its files. kAuto: neither.
SplitRule RuleOf(const DataFormat& format) {
  const bool clusters = !format.clusters.empty(),
             files = !format.valid_data.empty() || !format.test_data.empty();
  if (clusters && files)
    Throw(ErrorCode::kInvalidOption, "clusters",
          "given with valid_data or test_data, expected one");
  if (files && !format.held_out.empty())
    Throw(ErrorCode::kInvalidOption, "held_out",
          "given with valid_data or test_data, expected one of them");
  const SplitRule rule = clusters ? SplitRule::kClusters
                         : files  ? SplitRule::kFiles
                                  : format.split_by;
  if (format.split_by != SplitRule::kAuto && rule != format.split_by) {
    Throw(ErrorCode::kInvalidOption, "split_by", "given {} with {}, expected {}",
          Name(format.split_by), clusters ? "clusters" : "files of splits", Name(rule));
  }
  if (!clusters && !files && rule > SplitRule::kBlocks) {
    Throw(ErrorCode::kInvalidOption, "split_by", "given {}, expected {} with it", Name(rule),
          rule == SplitRule::kClusters ? "a file of clusters" : "valid_data or test_data");
  }
  return rule;
}

}  // namespace

std::unique_ptr<Dataset> OpenFasta(const std::string& path, const DataOptions& options) {
  const DataFormat& format = options.format;
  RefuseDnaName(path, format.alphabet);
  const bool join = format.layout == Layout::kJoin;
  if (format.split_by == SplitRule::kBlocks && !join) {
    Throw(ErrorCode::kInvalidOption, "split_by",
          "given blocks with layout {}, expected join: windows of a stream", Name(format.layout));
  }
  SplitRule rule = RuleOf(format);
  const auto letters = LettersOf(format.alphabet);
  const InputFiles files(path);
  FastaStore store(path, files, format, *letters);
  std::optional<RecordWriter> writer;
  if (rule == SplitRule::kAuto || rule == SplitRule::kRecords) {
    rule = SplitRule::kRecords;
    writer.emplace(store.ByRecords());
    const auto& [records, tokens] = store.size();
    if (format.split_by == SplitRule::kAuto && records < kFewRecords &&
        tokens > records * kBlockTokens)
      rule = SplitRule::kPlace;
  }
  if (rule == SplitRule::kPlace || rule == SplitRule::kBlocks)
    writer.emplace(store.ByPlace(rule == SplitRule::kBlocks));
  if (rule == SplitRule::kClusters) writer.emplace(store.ByClusters());
  if (rule == SplitRule::kFiles) writer.emplace(store.ByFiles());
  const std::vector<int64_t> counts = writer->TrainCounts(*letters);
  if (format.alphabet == Alphabet::kProtein) RefuseDnaLetters(path, counts, *letters);
  Stored stored{.source = path,
                .options = options,
                .vocabulary = letters,
                .unit = format.alphabet == Alphabet::kDna ? "base" : "residue",
                .splits = writer->Finish(),
                .fingerprint = writer->Fingerprint(),
                .content = writer->Content(),
                .split_by = rule,
                .train_counts = counts};
  return join ? MakeStreamData(std::move(stored)) : MakeRecordData(std::move(stored));
}

}  // namespace favor::data
