// FASTA files as data: read once, divided into splits by what records hold or by a list of names.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "core/error_text.h"
#include "core/hash.h"
#include "data/fasta.h"
#include "data/sources.h"

namespace favor::data {
namespace {

uint64_t HashOfName(const std::string& name) { return HashOf(std::as_bytes(std::span(name))); }

template <class Visit>
void ForEachRecord(const std::string& path, const Alphabet& alphabet, const Visit& visit) {
  io::ByteStream stream(path);
  FastaReader reader(stream, alphabet);
  for (FastaRecord record; reader.Next(record);) visit(record);
}

// One name a line.
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
std::unordered_set<uint64_t> HeldOut(const std::string& path, const std::string& list,
                                     const Alphabet& alphabet) {
  std::unordered_set<uint64_t> hashes;
  std::set<std::string> missing = ReadNames(list);
  const std::set<std::string> names = missing;
  ForEachRecord(path, alphabet, [&](const FastaRecord& record) {
    if (!names.contains(record.name)) return;
    missing.erase(record.name);
    hashes.insert(HashOf(std::as_bytes(std::span(record.tokens))));
  });
  if (!missing.empty()) {
    Throw(ErrorCode::kInvalidData, Printable(list),
          "names '{}', which is no record of '{}' ({} of {} names are not there)",
          Printable(*missing.begin()), Printable(path), missing.size(), names.size());
  }
  return hashes;
}

// Hashes of names say that one stands twice; another reading says which.
void RefuseTwins(const std::string& path, const Alphabet& alphabet, std::vector<uint64_t> hashes) {
  std::ranges::sort(hashes);
  std::unordered_set<uint64_t> twice;
  for (size_t i = 1; i < hashes.size(); ++i) {
    if (hashes[i] == hashes[i - 1]) twice.insert(hashes[i]);
  }
  if (twice.empty()) return;
  std::map<std::string, int64_t> lines;
  ForEachRecord(path, alphabet, [&](const FastaRecord& record) {
    if (!twice.contains(HashOfName(record.name))) return;
    const auto [found, fresh] = lines.emplace(record.name, record.line);
    if (fresh) return;
    Throw(ErrorCode::kInvalidData, Printable(path),
          "two records have the name '{}': line {} and line {}", Printable(record.name),
          found->second, record.line);
  });
}

}  // namespace

std::unique_ptr<Dataset> OpenFasta(const std::string& path, const DataOptions& options) {
  const DataFormat& format = options.format;
  if (format.alphabet == "protein" && (path.ends_with(".fna") || path.ends_with(".fna.gz"))) {
    Throw(ErrorCode::kInvalidOption, "alphabet", "given protein for '{}', expected dna",
          Printable(path));
  }
  const auto alphabet = OpenAlphabet(format.alphabet);
  const bool join = format.layout == "join";
  std::unordered_set<uint64_t> held_out;
  if (!format.held_out.empty()) held_out = HeldOut(path, format.held_out, *alphabet);
  RecordWriter writer(join ? alphabet->special().end : std::nullopt);
  std::vector<uint64_t> names;
  ForEachRecord(path, *alphabet, [&](const FastaRecord& record) {
    names.push_back(HashOfName(record.name));
    const uint64_t hash = HashOf(std::as_bytes(std::span(record.tokens)));
    writer.Add(held_out.contains(hash) ? Split::kHeldOut : SplitOf(hash, format), record.tokens);
  });
  if (names.empty()) Throw(ErrorCode::kInvalidData, Printable(path), "holds no records");
  RefuseTwins(path, *alphabet, std::move(names));
  Stored stored{.source = path,
                .options = options,
                .vocabulary = alphabet,
                .unit = format.alphabet == "dna" ? "base" : "residue",
                .splits = writer.Finish(),
                .fingerprint = writer.Fingerprint()};
  return join ? MakeStreamData(std::move(stored)) : MakeRecordData(std::move(stored));
}

}  // namespace favor::data
