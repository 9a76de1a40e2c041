// Clusters of records, as programs that compare sequences write them: those of one cluster stay
// together, so that relatives of what is learned are not what is tested.
#ifndef FAVOR_DATA_CLUSTERS_H_
#define FAVOR_DATA_CLUSTERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace favor::data {

class Clusters {
 public:
  // Reads lines "representative<tab>member" (mmseqs: *_cluster.tsv), or the .clstr of CD-HIT:
  // ">Cluster 0", then lines "0<tab>297aa, >name... *". Throws kInvalidData for anything else, and
  // if a member is in two clusters.
  explicit Clusters(const std::string& path);

  // A number that the members of a cluster have in common: a hash of the first name that the file
  // gives to it. A record "sp|P12345|NAME" may also be listed as P12345.
  std::optional<uint64_t> Of(std::string_view name) const;
  int64_t clusters() const { return clusters_; }
  const std::string& path() const { return path_; }

 private:
  void ReadLine(std::string_view line, int64_t number);
  void Add(std::string_view member, uint64_t cluster, int64_t line);

  std::string path_;
  std::unordered_map<uint64_t, uint64_t> of_;  // hash of a name → cluster
  int64_t clusters_ = 0;
  bool lists_ = false;            // the .clstr of CD-HIT
  std::optional<uint64_t> open_;  // its cluster that is being read; none: before its first name
};

}  // namespace favor::data

#endif  // FAVOR_DATA_CLUSTERS_H_
