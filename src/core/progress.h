// Progress of long work on stderr: a bar on a terminal, a plain line every few seconds elsewhere.
#ifndef FAVOR_CORE_PROGRESS_H_
#define FAVOR_CORE_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace favor {

// One line of a terminal; parts of the note are separated by two spaces.
struct Bar {
  std::string title;
  double share;  // share of the work that is done
  std::string left, note;
  int width;  // columns of the terminal
};
std::string BarLine(const Bar& bar);

class Progress {
 public:
  // Shows nothing if `quiet`. `first` of the total was done before: the time left is estimated from
  // the rest.
  Progress(std::string title, int64_t total, bool quiet = false, int64_t first = 0);
  ~Progress();  // ends the line of the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows that `done` of the total is done, and a note. Not for several threads at once.
  void Update(int64_t done, const std::string& note = "");

 private:
  using Clock = std::chrono::steady_clock;

  std::string title_;
  int64_t total_, first_;
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_;
  Clock::time_point last_;
};

}  // namespace favor

#endif  // FAVOR_CORE_PROGRESS_H_
