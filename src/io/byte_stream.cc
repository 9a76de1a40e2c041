#include "io/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/error_text.h"
#include "io/input_file.h"

namespace favor::io {
namespace {

// Expands pieces in a thread of its own, a few ahead of the reader: expanding takes longer than
// most readers do, so their time is hidden.
class ReadAhead {
 public:
  // `next` gives piece after piece, the last one empty, and may throw.
  explicit ReadAhead(std::function<std::string_view()> next)
      : next_(std::move(next)), thread_([this] { Work(); }) {}
  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  std::string_view Next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !pieces_.empty() || finished_; });
    if (pieces_.empty()) {
      if (failure_) std::rethrow_exception(failure_);
      return {};
    }
    current_ = std::move(pieces_.front());
    pieces_.pop_front();
    changed_.notify_all();
    return current_;
  }

 private:
  void Work() {
    constexpr size_t kMostAhead = 4;
    std::exception_ptr failure;
    try {
      for (;;) {
        std::string piece(next_());
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return pieces_.size() < kMostAhead || stopped_; });
        if (stopped_ || piece.empty()) break;
        pieces_.push_back(std::move(piece));
        changed_.notify_all();
      }
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    finished_ = true;
    changed_.notify_all();
  }

  std::function<std::string_view()> next_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_;
  std::string current_;
  std::exception_ptr failure_;
  bool finished_ = false, stopped_ = false;
  std::thread thread_;  // last: it uses the others
};

// Formats that are recognised only to be refused.
struct Foreign {
  std::vector<std::string_view> starts;  // first bytes of its files; '?' stands for any byte
  std::string_view what, command;        // what it is; the command that expands it
};

const Foreign* FindForeign(std::string_view start) {
  using namespace std::string_view_literals;
  static const Foreign formats[] = {
      // bzip2: a header, then a block or, in an empty file, the end.
      {{"BZh?1AY&SY"sv, "BZh?\x17\x72\x45\x38\x50\x90"sv}, "compressed by bzip2", "bzip2 -d"},
      {{"\xfd"
        "7zXZ\0"sv},
       "compressed by xz",
       "xz -d"},
      {{"\x28\xb5\x2f\xfd"sv}, "compressed by zstd", "zstd -d"},
      // zip: a file, an archive without files, the first of several volumes.
      {{"PK\x03\x04"sv, "PK\x05\x06"sv, "PK\x07\x08"sv}, "a zip archive", "unzip"},
  };
  for (const Foreign& format : formats) {
    for (const std::string_view pattern : format.starts) {
      if (start.size() >= pattern.size() &&
          std::equal(pattern.begin(), pattern.end(), start.begin(), [](char expected, char given) {
            return expected == '?' || expected == given;
          }))
        return &format;
    }
  }
  return nullptr;
}

constexpr size_t kPiece = 1 << 18;  // bytes in and out: both stay in the L2 cache

}  // namespace

struct ByteStream::Impl {
  explicit Impl(const std::string& stream_name) : name(stream_name) {}
  ~Impl() {
    ahead.reset();  // its thread uses the inflater
    if (gzip) inflateEnd(&inflater);
  }

  [[noreturn]] void Damaged(const std::string& what) const {
    Throw(ErrorCode::kInvalidData, Printable(name), "damaged gzip data: {}", what);
  }

  // The next compressed bytes, as they are in the file.
  std::string_view NextRaw() {
    if (shared != nullptr) {
      raw.resize(std::min(kPiece, shared->Size().value_or(0) - shared_place));
      shared->ReadAt(static_cast<int64_t>(shared_place), std::as_writable_bytes(std::span(raw)));
      shared_place += raw.size();
      return {raw.data(), raw.size()};
    }
    if (!file) return std::exchange(memory, {});
    raw.resize(kPiece);
    const size_t count = file->Read(std::as_writable_bytes(std::span(raw)));
    return {raw.data(), count};
  }

  void Open() {
    pending = NextRaw();
    gzip = pending.size() >= 2 && pending[0] == '\x1f' && pending[1] == '\x8b';
    if (const Foreign* foreign = FindForeign(pending)) {
      Throw(ErrorCode::kInvalidData, Printable(name),
            "is {}, expected plain or gzip data: expand it with '{}'", foreign->what,
            foreign->command);
    }
    if (!gzip) return;
    constexpr int kGzipHeader = 16;
    if (inflateInit2(&inflater, MAX_WBITS + kGzipHeader) != Z_OK)
      Throw(ErrorCode::kOutOfMemory, Printable(name), "zlib cannot be set up");
    out.resize(kPiece);
  }

  std::string_view Plain() {
    if (!pending.empty()) return std::exchange(pending, {});
    return NextRaw();
  }

  std::string_view Inflated() {
    if (finished) return {};
    inflater.next_out = reinterpret_cast<Bytef*>(out.data());
    inflater.avail_out = static_cast<uInt>(out.size());
    while (inflater.avail_out > 0) {
      if (pending.empty()) pending = NextRaw();
      if (pending.empty()) {
        finished = true;
        if (inside) Damaged("cut off");
        break;
      }
      if (!inside) {  // after a member: another one
        if (inflateReset(&inflater) != Z_OK) Damaged("zlib cannot continue");
        inside = true;
      }
      const size_t piece = std::min<size_t>(pending.size(), 1u << 30);
      inflater.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(pending.data()));
      inflater.avail_in = static_cast<uInt>(piece);
      const int status = inflate(&inflater, Z_NO_FLUSH);
      pending.remove_prefix(piece - inflater.avail_in);
      if (status == Z_STREAM_END) {
        inside = false;
        ++members;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        if (members > 0 && inflater.total_out == 0) Damaged("other data follows its end");
        Damaged(inflater.msg != nullptr ? inflater.msg : "cannot be expanded");
      }
    }
    return {out.data(), out.size() - inflater.avail_out};
  }

  std::string name;
  std::optional<InputFile> file;
  std::shared_ptr<const InputFile> shared;
  size_t shared_place = 0;
  std::string_view memory, pending;
  std::vector<char> raw, out;
  bool gzip = false, inside = true, finished = false;
  int64_t members = 0;  // gzip members read to their end
  z_stream inflater{};
  std::optional<ReadAhead> ahead;  // for compressed files
};

ByteStream::ByteStream(const std::string& path) : impl_(std::make_unique<Impl>(path)) {
  CheckRegularFile(path);
  impl_->file.emplace(path);
  impl_->Open();
  if (impl_->gzip) impl_->ahead.emplace([impl = impl_.get()] { return impl->Inflated(); });
}

ByteStream::ByteStream(std::shared_ptr<const InputFile> file, const std::string& name)
    : impl_(std::make_unique<Impl>(name)) {
  impl_->shared = std::move(file);
  impl_->Open();
  if (impl_->gzip) impl_->ahead.emplace([impl = impl_.get()] { return impl->Inflated(); });
}

ByteStream::ByteStream(std::string_view bytes, const std::string& name)
    : impl_(std::make_unique<Impl>(name)) {
  impl_->memory = bytes;
  impl_->Open();
}

ByteStream::~ByteStream() = default;

std::string_view ByteStream::Next() {
  if (impl_->ahead) return impl_->ahead->Next();
  return impl_->gzip ? impl_->Inflated() : impl_->Plain();
}
bool ByteStream::compressed() const { return impl_->gzip; }
const std::string& ByteStream::name() const { return impl_->name; }

}  // namespace favor::io
