// The yardstick of every benchmark: a large product of float matrices by oneDNN, which users know.
#ifndef FAVOR_LAB_SGEMM_H_
#define FAVOR_LAB_SGEMM_H_

#include <vector>

#include "favor/context.h"

namespace favor::lab {

// C = A·B of 1536 × 1536 matrices, one product on every thread at the same time.
class LargeSgemm {
 public:
  explicit LargeSgemm(const Context& context);

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

}  // namespace favor::lab

#endif  // FAVOR_LAB_SGEMM_H_
