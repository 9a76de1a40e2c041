#include "benchmarks/sgemm.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "core/error_text.h"
#include "core/parallel.h"
#include "core/stopwatch.h"
#ifdef FAVOR_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

namespace favor::benchmarks {
namespace {

#ifdef FAVOR_ONEDNN
constexpr bool kBuilt = true;

// Debian's oneDNN chooses its own OpenMP runtime for threads, so that runtime is looked up by name
// at run time and told to use one thread: otherwise every worker would start a team.
int Multiply(const SgemmProblem& p, const float* a, const float* b, float* c) {
  static const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set_threads != nullptr) set_threads(1);
  return dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.rows, p.columns,
                    p.depth, 1, a, p.transpose_a ? p.rows : p.depth, b,
                    p.transpose_b ? p.depth : p.columns, 0, c, p.columns);
}
#else
constexpr bool kBuilt = false;

int Multiply(const SgemmProblem&, const float*, const float*, float*) { return -1; }
#endif

}  // namespace

void Sgemm(const SgemmProblem& problem, const float* a, const float* b, float* c) {
  const int status = Multiply(problem, a, b, c);
  if (status != 0) Throw(ErrorCode::kUnavailable, "sgemm", "oneDNN failed with status {}", status);
}

bool LargeSgemm::Available() { return kBuilt; }

LargeSgemm::LargeSgemm(const Context& context)
    : context_(context), work_(static_cast<size_t>(context.threads())) {
  constexpr size_t kElements = size_t{kSize} * kSize;
  for (Work& work : work_) {
    work.a.resize(kElements);
    work.b.resize(kElements);
    work.c.assign(kElements, 0.0f);
    for (size_t i = 0; i < kElements; ++i) {
      work.a[i] = static_cast<float>(i % 13) - 6;
      work.b[i] = static_cast<float>(i % 7) - 3;
    }
  }
}

double LargeSgemm::FlopsOfRun() const {
  return 2.0 * kSize * kSize * kSize * static_cast<double>(work_.size());
}

void LargeSgemm::Run() {
  ParallelFor(context_, static_cast<int64_t>(work_.size()), [&](int64_t i) {
    Work& work = work_[static_cast<size_t>(i)];
    Sgemm({kSize, kSize, kSize}, work.a.data(), work.b.data(), work.c.data());
  });
}

Yardstick::Yardstick(const Context& context) {
  if (LargeSgemm::Available()) sgemm_.emplace(context);
}

void Yardstick::Measure() {
  if (!sgemm_) return;
  const double seconds = LeastSeconds(1, [&] { sgemm_->Run(); });
  gflops_ = std::max(gflops_.value_or(0), sgemm_->FlopsOfRun() / 1e9 / seconds);
}

std::string YardstickText(const std::optional<double>& sgemm_gflops) {
  if (!sgemm_gflops)
    return "No yardstick: favor was built without oneDNN (install libdnnl-dev and build again).";
  return fmt::format("Large sgemm (oneDNN) in this run: {:.1f} GFLOP/s.", *sgemm_gflops);
}

std::string ShareText(double gflops, const std::optional<double>& sgemm_gflops) {
  return sgemm_gflops ? fmt::format("{:.0f} %", 100 * gflops / *sgemm_gflops) : "—";
}

}  // namespace favor::benchmarks
