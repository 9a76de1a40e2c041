#include "data/clusters.h"

#include <span>
#include <string_view>
#include <unordered_set>

#include "core/error_text.h"
#include "core/hash.h"
#include "core/split.h"
#include "data/text_lines.h"

namespace favor::data {
namespace {

uint64_t HashOfText(std::string_view text) { return HashOf(std::as_bytes(std::span(text))); }

// The name of a record in a line of a .clstr: what stands between '>' and "...".
std::optional<std::string_view> NameIn(std::string_view line) {
  const size_t begin = line.find('>');
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t end = line.find("...", begin);
  if (end == std::string_view::npos || end == begin + 1) return std::nullopt;
  return line.substr(begin + 1, end - begin - 1);
}

}  // namespace

Clusters::Clusters(const std::string& path) : path_(path) {
  ForEachLine(path, [&](std::string_view line, int64_t number) {
    if (number == 1) lists_ = line.starts_with(">Cluster ");
    if (!line.empty()) ReadLine(line, number);
  });
  if (of_.empty()) Throw(ErrorCode::kInvalidData, Printable(path), "holds no clusters");
  std::unordered_set<uint64_t> different;
  for (const auto& [name, cluster] : of_) different.insert(cluster);
  clusters_ = std::ssize(different);
}

void Clusters::ReadLine(std::string_view line, int64_t number) {
  const auto refuse = [&](std::string_view expected) {
    Throw(ErrorCode::kInvalidData, Printable(path_), "line {}: given '{}', expected {}", number,
          Printable(line.substr(0, 80)), expected);
  };
  if (!lists_) {
    const size_t tab = line.find('\t');
    if (tab == 0 || tab == std::string_view::npos || tab + 1 == line.size() ||
        line.find('\t', tab + 1) != std::string_view::npos)
      refuse("two names with a tab between them (or the .clstr of CD-HIT)");
    return Add(line.substr(tab + 1), HashOfText(line.substr(0, tab)), number);
  }
  if (line.starts_with(">Cluster ")) {
    open_.reset();
    return;
  }
  const auto name = NameIn(line);
  if (!name) refuse("a member of a cluster, such as \"0<tab>297aa, >name... *\"");
  if (!open_) open_ = HashOfText(*name);
  Add(*name, *open_, number);
}

void Clusters::Add(std::string_view member, uint64_t cluster, int64_t line) {
  const auto [found, fresh] = of_.emplace(HashOfText(member), cluster);
  if (!fresh && found->second != cluster) {
    Throw(ErrorCode::kInvalidData, Printable(path_), "line {}: '{}' is in two clusters", line,
          Printable(member));
  }
}

std::optional<uint64_t> Clusters::Of(std::string_view name) const {
  if (const auto found = of_.find(HashOfText(name)); found != of_.end()) return found->second;
  // mmseqs names a record of UniProt, "sp|P12345|NAME", by its accession.
  const std::vector<std::string_view> parts = SplitAt(name, '|');
  return parts.size() == 3 ? Of(parts[1]) : std::nullopt;
}

}  // namespace favor::data
