#include "core/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/notice.h"

namespace favor {
namespace {

constexpr std::chrono::milliseconds kBarInterval{100};
constexpr std::chrono::seconds kLineInterval{5};

int TerminalWidth() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Duration(double seconds) {
  const auto whole = std::llround(seconds);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

}  // namespace

std::string BarLine(const Bar& bar) {
  constexpr int kLongest = 28, kShortest = 8;
  std::string text = fmt::format("{:3.0f}% {}", 100 * bar.share, bar.left);
  const int room = bar.width - static_cast<int>(bar.title.size()) - 3;  // for bar and text
  const auto fits = [&](size_t bytes) { return static_cast<int>(bytes) + kShortest <= room; };
  // Whole parts of the note, as many as fit: a number that is cut short would read as another
  // number.
  constexpr std::string_view kBetween = "  ";
  for (std::string_view rest = bar.note; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(kBetween));
    if (!fits(text.size() + kBetween.size() + part.size())) break;
    text.append(kBetween).append(part);
    rest.remove_prefix(std::min(rest.size(), part.size() + kBetween.size()));
  }
  const int cells = std::clamp(room - static_cast<int>(text.size()), kShortest, kLongest);
  const int filled = static_cast<int>(bar.share * cells);
  std::string line = bar.title + " ";
  for (int i = 0; i < cells; ++i) line += i < filled ? "█" : "░";
  return line + " " + text;
}

Progress::Progress(std::string title, int64_t total, bool quiet, int64_t first)
    : title_(std::move(title)),
      total_(std::max<int64_t>(total, 1)),
      first_(first),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_ - std::chrono::hours(1)) {}

Progress::~Progress() {
  if (shown_ && terminal_) Notice("\n");
}

void Progress::Update(int64_t done, const std::string& note) {
  if (quiet_) return;
  const Clock::time_point now = Clock::now();
  const bool last = done >= total_;
  if (!last &&
      now - last_ < (terminal_ ? Clock::duration(kBarInterval) : Clock::duration(kLineInterval)))
    return;
  last_ = now;
  shown_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total_);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const std::string left = last            ? "in " + Duration(elapsed)
                           : done > first_ ? Duration(elapsed * static_cast<double>(total_ - done) /
                                                      static_cast<double>(done - first_)) +
                                                 " left"
                                           : "";
  if (!terminal_) {
    Notice(fmt::format("{}: {}/{}{}{}{}{}\n", title_, done, total_, left.empty() ? "" : ", ", left,
                       note.empty() ? "" : ", ", note));
    return;
  }
  Notice(
      "\r\033[K" +
      BarLine(
          {.title = title_, .share = share, .left = left, .note = note, .width = TerminalWidth()}));
}

}  // namespace favor
