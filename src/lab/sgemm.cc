#include "lab/sgemm.h"

#include <omp.h>

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "core/error_text.h"
#include "core/parallel.h"

namespace favor::lab {

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
    // oneDNN is threaded by OpenMP here: one thread each, or every worker would start a team.
    omp_set_num_threads(1);
    Work& work = work_[static_cast<size_t>(i)];
    const dnnl::status status = dnnl::sgemm('N', 'N', kSize, kSize, kSize, 1, work.a.data(), kSize,
                                            work.b.data(), kSize, 0, work.c.data(), kSize);
    if (status != dnnl::status::success)
      Throw(ErrorCode::kUnavailable, "sgemm", "oneDNN failed with status {}",
            static_cast<int>(status));
  });
}

}  // namespace favor::lab
