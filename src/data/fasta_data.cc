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
#include "data/labels.h"
#include "data/sources.h"
#include "data/text_lines.h"

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
  ForEachLine(path, [&](std::string_view name, int64_t) {
    if (name.starts_with('>')) name.remove_prefix(1);
    if (!name.empty()) names.emplace(name);
  });
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
  // From now on records are read with their labels; those without one are left out.
  void Use(const Labels& labels) {
    labels_ = &labels;
    statistics_.counts.assign(labels.classes().size(), 0);
    occurs_.assign(labels.classes().size(), false);
  }

  // Divided by what records hold.
  RecordWriter ByRecords() {
    RecordWriter writer(End());
    Read([&](const Item& item) { Put(SplitOf(item.hash, format_), item, writer); }, writer);
    return writer;
  }
  // The same in each class: the shares of its records with the smallest hashes are held out.
  RecordWriter Stratified() {
    std::vector<std::vector<uint64_t>> hashes(labels_->classes().size());
    RecordWriter ignored(End()), writer(End());
    Read([&](const Item& item) { hashes[item.labels.front()].push_back(item.hash); }, ignored);
    std::vector<HeldOutHashes> held_out;
    for (std::vector<uint64_t>& of_class : hashes) held_out.emplace_back(of_class, format_);
    Read(
        [&](const Item& item) {
          Put(held_out[item.labels.front()].SplitOf(item.hash), item, writer);
        },
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
        [&](const Item& item) {
          const auto cluster = clusters.Of(item.record.name);
          if (!cluster && missing++ == 0) first = item.record.name;
          Put(cluster ? SplitOf(*cluster, format_) : Split::kTrain, item, writer);
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
        [&](const Item& item) {
          const Split split = SplitOf(item.hash, shares);
          if (split == Split::kTrain) learned.insert(item.hash);
          Put(split, item, writer);
        },
        writer);
    for (const Split split : {Split::kValid, Split::kTest}) {
      const std::string& path = split == Split::kValid ? format_.valid_data : format_.test_data;
      if (path.empty()) continue;
      int64_t known = 0;
      const InputFiles files(path);
      FastaStore store(path, files, format_, alphabet_);
      if (labels_ != nullptr) store.Use(*labels_);
      store.Read(
          [&](const Item& item) {
            known += learned.contains(item.hash) ? 1 : 0;
            Put(split, item, writer);
          },
          writer);
      labelled_ += store.labelled_;
      unlabelled_ += store.unlabelled_;
      used_.insert(store.used_.begin(), store.used_.end());
      for (size_t i = 0; i < occurs_.size(); ++i) occurs_[i] = occurs_[i] || store.occurs_[i];
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
      Read([](const Item&) {}, ignored);
    }
    const int64_t tokens = size_.tokens + (End() ? size_.records : 0);
    const Division division =
        blocks ? Division::Blocks(path_, tokens, format_) : Division::Place(path_, tokens, format_);
    RecordWriter writer(End());
    Read([&](const Item& item) { writer.Add(division, item.record.tokens); }, writer);
    return writer;
  }
  // The size of what was read last, without records that are held out by name.
  const Size& size() const { return size_; }
  // Of the labels of the train split.
  const LabelStatistics& statistics() const { return statistics_; }

  // Says which records have no label, and how many labels have no record.
  void WarnAboutLabels() const {
    if (unlabelled_ > 0) {
      Warn(Printable(path_), "{} of its {} records have no label in '{}' and are left out",
           unlabelled_, labelled_ + unlabelled_, Printable(labels_->path()));
    }
    const int64_t unused = labels_->records() - std::ssize(used_);
    if (unused > 0) {
      Warn(Printable(labels_->path()), "{} of its {} names are not those of records", unused,
           labels_->records());
    }
    for (size_t i = 0; i < occurs_.size(); ++i) {
      if (occurs_[i]) continue;
      Warn(Printable(labels_->path()),
           "no record is of the class '{}' (a heading begins with 'id' or '#')",
           Printable(labels_->classes()[i]));
      return;
    }
  }

 private:
  // A record with a hash of what it holds and its labels, if there are any.
  struct Item {
    const FastaRecord& record;
    uint64_t hash;
    std::span<const uint32_t> labels;
  };

  void Put(Split split, const Item& item, RecordWriter& writer) {
    writer.Add(split, item.record.tokens, item.labels);
    if (split == Split::kTrain && labels_ != nullptr) statistics_.Add(item.labels);
  }

  // The labels of a record, one or one for each token; empty if the table has none.
  std::span<const uint32_t> LabelsOf(const FastaRecord& record) const {
    const auto found = labels_->Of(record.name);
    if (!found) return {};
    const size_t expected = format_.label_of == LabelOf::kToken ? record.tokens.size() : 1;
    if (found->size() != expected) {
      Throw(ErrorCode::kInvalidData, Printable(labels_->path()),
            "has {} labels for '{}', which has {} letters", found->size(), Printable(record.name),
            record.tokens.size());
    }
    return *found;
  }

  std::optional<int32_t> End() const {
    return format_.layout == Layout::kJoin ? alphabet_.special().end : std::nullopt;
  }

  template <class Visit>
  void Read(const Visit& visit, RecordWriter& writer) {
    size_ = {};
    labelled_ = unlabelled_ = 0;
    std::vector<uint64_t> names;
    ForEachRecord(files_, alphabet_, [&](const FastaRecord& record, size_t file) {
      names.push_back(HashOfName(record.name, file));
      Item item{record, HashOf(std::as_bytes(std::span(record.tokens))), {}};
      if (labels_ != nullptr) {
        item.labels = LabelsOf(record);
        ++(item.labels.empty() ? unlabelled_ : labelled_);
        if (item.labels.empty()) return;
        used_.insert(item.labels.data());
        for (const uint32_t label : item.labels) {
          if (label != kNoLabel && !occurs_.empty()) occurs_[label] = true;
        }
      }
      if (held_out_.contains(item.hash)) return Put(Split::kHeldOut, item, writer);
      ++size_.records;
      size_.tokens += std::ssize(record.tokens);
      visit(item);
    });
    if (names.empty()) Throw(ErrorCode::kInvalidData, Printable(path_), "holds no records");
    if (labels_ != nullptr && labelled_ == 0) {
      Throw(ErrorCode::kInvalidData, Printable(labels_->path()), "names no record of '{}'",
            Printable(path_));
    }
    RefuseTwins(files_, alphabet_, std::move(names));
  }

  const std::string& path_;
  const InputFiles& files_;
  const DataFormat& format_;
  const LetterVocabulary& alphabet_;
  std::unordered_set<uint64_t> held_out_;
  const Labels* labels_ = nullptr;
  Size size_;
  int64_t labelled_ = 0, unlabelled_ = 0;     // records with and without a label
  std::unordered_set<const uint32_t*> used_;  // labels that some record has
  std::vector<bool> occurs_;                  // by class: whether some record is of it
  LabelStatistics statistics_;
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
  if (!clusters && !files && (rule == SplitRule::kClusters || rule == SplitRule::kFiles)) {
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
  std::optional<Labels> labels;
  bool of_classes = false;
  if (!format.labels.empty()) {
    const bool of_sequence = format.label_of == LabelOf::kSequence,
               numbers = options.task == Task::kRegress;
    if (format.layout != Layout::kClip || rule == SplitRule::kPlace || rule == SplitRule::kBlocks) {
      Throw(ErrorCode::kInvalidOption, "labels",
            "given with {}, expected whole records (layout clip)",
            format.layout == Layout::kClip ? "split_by" : "another layout");
    }
    labels.emplace(
        format.labels,
        LabelOptions{.numbers = numbers, .per_token = !of_sequence, .classes = options.classes});
    store.Use(*labels);
    of_classes = of_sequence && !numbers;
    if (rule == SplitRule::kAuto) rule = of_classes ? SplitRule::kStratified : SplitRule::kRecords;
  }
  if (rule == SplitRule::kStratified && !of_classes) {
    Throw(ErrorCode::kInvalidOption, "split_by",
          "given stratified, expected classes of sequences with it");
  }
  std::optional<RecordWriter> writer;
  if (rule == SplitRule::kAuto || rule == SplitRule::kRecords) {
    rule = SplitRule::kRecords;
    writer.emplace(store.ByRecords());
    const auto& [records, tokens] = store.size();
    if (format.split_by == SplitRule::kAuto && !labels && records < kFewRecords &&
        tokens > records * kBlockTokens)
      rule = SplitRule::kPlace;
  }
  if (rule == SplitRule::kPlace || rule == SplitRule::kBlocks)
    writer.emplace(store.ByPlace(rule == SplitRule::kBlocks));
  if (rule == SplitRule::kClusters) writer.emplace(store.ByClusters());
  if (rule == SplitRule::kFiles) writer.emplace(store.ByFiles());
  if (rule == SplitRule::kStratified) writer.emplace(store.Stratified());
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
  if (labels) {
    store.WarnAboutLabels();
    stored.class_names = labels->classes();
    stored.class_counts = store.statistics().counts;
    stored.scale = options.scale.value_or(store.statistics().Scale());
  }
  return join ? MakeStreamData(std::move(stored)) : MakeRecordData(std::move(stored));
}

}  // namespace favor::data
