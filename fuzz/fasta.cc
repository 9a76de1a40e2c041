// Any bytes as a FASTA file, plain or gzip, in both alphabets: records or an Error, nothing else.
// Plain input is sometimes also compressed here (which is slow) and must give the same records.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "data/fasta.h"
#include "favor/error.h"

namespace {

std::string Gzip(const std::string& text) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    std::abort();
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Names and tokens of all records as text, or the error.
std::string Read(const std::string& bytes, favor::Alphabet alphabet) {
  std::string seen;
  try {
    favor::io::ByteStream stream(bytes, "fuzz.fasta");
    favor::data::FastaReader reader(stream, *favor::data::LettersOf(alphabet));
    for (favor::data::FastaRecord record; reader.Next(record);) {
      if (record.name.empty() || record.tokens.empty()) std::abort();
      seen += '>' + record.name + '\n';
      seen.append(record.tokens.begin(), record.tokens.end());
    }
  } catch (const favor::Error& error) {
    return error.what();
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string file(data, data + size);
  const bool compress = size % 8 == 0 && !file.starts_with("\x1f\x8b");
  for (const auto alphabet : {favor::Alphabet::kProtein, favor::Alphabet::kDna}) {
    const std::string seen = Read(file, alphabet);
    if (compress && Read(Gzip(file), alphabet) != seen) std::abort();
  }
  return 0;
}
