// The yardstick of every benchmark: a large product of float matrices by oneDNN, which users know.
#ifndef FAVOR_BENCHMARKS_SGEMM_H_
#define FAVOR_BENCHMARKS_SGEMM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "favor/context.h"

namespace favor::benchmarks {

// C = A·B by oneDNN on the calling thread; A and B may be stored transposed. C is [rows, columns].
// Throws kUnavailable if favor was built without oneDNN.
struct SgemmProblem {
  int64_t rows, columns, depth;
  bool transpose_a = false, transpose_b = false;
};
void Sgemm(const SgemmProblem& problem, const float* a, const float* b, float* c);

// C = A·B of 1536 × 1536 matrices, one product on every thread at the same time.
class LargeSgemm {
 public:
  explicit LargeSgemm(const Context& context);

  static bool Available();  // false if favor was built without oneDNN: Run then throws
  double FlopsOfRun() const;
  void Run();
  // Elements of the product of the first thread, for a test.
  const std::vector<float>& a() const { return work_[0].a; }
  const std::vector<float>& b() const { return work_[0].b; }
  const std::vector<float>& c() const { return work_[0].c; }
  static constexpr int kSize = 1536;

 private:
  struct Work {
    std::vector<float> a, b, c;
  };
  const Context& context_;
  std::vector<Work> work_;
};

// The rate of LargeSgemm, measured in turns with the work that is compared with it.
class Yardstick {
 public:
  explicit Yardstick(const Context& context);

  void Measure();
  // The best rate so far; empty if there is no yardstick.
  const std::optional<double>& gflops() const { return gflops_; }

 private:
  std::optional<LargeSgemm> sgemm_;
  std::optional<double> gflops_;
};

// "Large sgemm (oneDNN) in this run: 291.0 GFLOP/s." or a sentence that says why there is none.
std::string YardstickText(const std::optional<double>& sgemm_gflops);
// `gflops` as a share of the yardstick: "58 %", or "—" without one.
std::string ShareText(double gflops, const std::optional<double>& sgemm_gflops);

}  // namespace favor::benchmarks

#endif  // FAVOR_BENCHMARKS_SGEMM_H_
