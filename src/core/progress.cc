#include "core/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace favor {
namespace {

constexpr std::chrono::milliseconds kBarInterval{100};
constexpr std::chrono::seconds kLineInterval{5};

int TerminalWidth() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

// Work does not end because nobody can watch it.
void Show(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(std::string title, int64_t total, bool quiet, int64_t first)
    : title_(std::move(title)),
      total_(std::max<int64_t>(total, 1)),
      first_(first),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_ - std::chrono::hours(1)) {}

Progress::~Progress() {
  if (shown_ && terminal_) std::fputc('\n', stderr);
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
  const std::string left = last            ? Duration(elapsed)
                           : done > first_ ? Duration(elapsed * static_cast<double>(total_ - done) /
                                                      static_cast<double>(done - first_)) +
                                                 " left"
                                           : "";
  if (!terminal_) {
    Show(fmt::format("{}: {}/{} {} {}\n", title_, done, total_, left, note));
    return;
  }
  constexpr int kBar = 28;
  const int filled = static_cast<int>(share * kBar);
  std::string bar;
  for (int i = 0; i < kBar; ++i) bar += i < filled ? "█" : "░";
  std::string text = fmt::format("{:3.0f}% {} {}", 100 * share, left, note);
  const int room = TerminalWidth() - kBar - static_cast<int>(title_.size()) - 4;
  if (static_cast<int>(text.size()) > room) text.resize(static_cast<size_t>(std::max(room, 0)));
  Show(fmt::format("\r\033[K{} {} {}", title_, bar, text));
}

}  // namespace favor
