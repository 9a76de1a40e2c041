// Tasks on plain threads, for builds under the thread sanitizer: it sees how these begin and end,
// but not how oneTBB, a library compiled without it, hands tasks over.
#ifndef FAVOR_CORE_PLAIN_THREADS_H_
#define FAVOR_CORE_PLAIN_THREADS_H_

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FAVOR_PLAIN_THREADS 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define FAVOR_PLAIN_THREADS 1
#endif

#if FAVOR_PLAIN_THREADS

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace favor {

// Calls body(piece) for each piece in [0, pieces); what the first body throws is thrown again.
template <class Body>
void OnPlainThreads(int threads, int64_t pieces, const Body& body) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto work = [&] {
    try {
      for (int64_t piece = next++; piece < pieces; piece = next++) body(piece);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int i = 1; i < threads && i < pieces; ++i) workers.emplace_back(work);
    work();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace favor

#endif  // FAVOR_PLAIN_THREADS

#endif  // FAVOR_CORE_PLAIN_THREADS_H_
