// Ctrl-C and SIGTERM as a request to stop.
#ifndef FAVOR_CLI_STOP_SIGNALS_H_
#define FAVOR_CLI_STOP_SIGNALS_H_

#include <csignal>

namespace favor::cli {

// While it lives, the first SIGINT or SIGTERM is only remembered; a second one, of either kind,
// ends the process at once. Signals that were ignored when the process started stay ignored. Only
// one object may exist at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // restores what signals did before
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The number of the first signal since the last object was made; 0: none so far.
  static int Received();

 private:
  struct sigaction interrupt_before_ {
  }, terminate_before_{};
};

}  // namespace favor::cli

#endif  // FAVOR_CLI_STOP_SIGNALS_H_
