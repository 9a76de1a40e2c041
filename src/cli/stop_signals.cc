#include "cli/stop_signals.h"

#include <atomic>

namespace favor::cli {
namespace {

std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler must not wait");

void OnSignal(int signal) {
  int none = 0;
  if (received.compare_exchange_strong(none, signal)) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // delivered when the handler returns
}

void Install(int signal, struct sigaction& before) {
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  received = 0;
  Install(SIGINT, interrupt_before_);
  Install(SIGTERM, terminate_before_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

int StopSignals::Received() { return received; }

}  // namespace favor::cli
