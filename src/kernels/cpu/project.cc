#include "kernels/project.h"

#include <algorithm>

#include "core/context_impl.h"
#include "core/parallel.h"
#include "kernels/cpu/tile.h"

namespace favor::kernels::cpu {
namespace {

// H y by butterflies: n log2 n additions a lane.
void Hadamard(int64_t n, float* y) {
  for (int64_t stride = 1; stride < n; stride *= 2) {
    for (int64_t base = 0; base < n; base += 2 * stride) {
      for (int64_t i = base; i < base + stride; ++i) {
        float* a = y + i * kLanes;
        float* b = a + stride * kLanes;
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          const float sum = a[lane] + b[lane];
          b[lane] = a[lane] - b[lane];
          a[lane] = sum;
        }
      }
    }
  }
}

void Rotate(int64_t n, int64_t stride, const float* parameters, float sine_sign, float* y) {
  for (int64_t base = 0; base < n; base += 2 * stride) {
    for (int64_t i = base; i < base + stride; ++i, parameters += 2) {
      const float cosine = parameters[0], sine = sine_sign * parameters[1];
      float* a = y + i * kLanes;
      float* b = a + stride * kLanes;
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const float first = a[lane], second = b[lane];
        a[lane] = cosine * first - sine * second;
        b[lane] = sine * first + cosine * second;
      }
    }
  }
}

void ApplyStage(const OmegaStage& stage, int64_t n, const std::vector<float>& parameters,
                bool transpose, float* y) {
  const float* p = parameters.data() + stage.first_parameter;
  switch (stage.kind) {
    case OmegaStage::Kind::kSigns:
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t lane = 0; lane < kLanes; ++lane) y[i * kLanes + lane] *= p[i];
      }
      break;
    case OmegaStage::Kind::kHadamard:
      Hadamard(n, y);
      break;
    case OmegaStage::Kind::kRotations:
      Rotate(n, stage.stride, p, transpose ? -1.0f : 1.0f, y);
      break;
  }
}

}  // namespace

void ProjectTile(const Omega& omega, const float* x, float* work, float* u) {
  const int64_t d = omega.dim, m = omega.features, n = omega.padded_dim;
  if (omega.IsDense()) {
    Multiply({omega.dense_f32.data(), d, 1}, m, d, x, /*add=*/false, u);
    return;
  }
  for (int64_t first = 0; first < m; first += n) {
    std::copy_n(x, d * kLanes, work);
    std::fill_n(work + d * kLanes, (n - d) * kLanes, 0.0f);
    const auto& parameters = omega.block_parameters[static_cast<size_t>(first / n)];
    for (const OmegaStage& stage : omega.stages) ApplyStage(stage, n, parameters, false, work);
    for (int64_t r = first; r < std::min(m, first + n); ++r) {
      const float scale = omega.row_scale[static_cast<size_t>(r)];
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        u[r * kLanes + lane] = scale * work[(r - first) * kLanes + lane];
      }
    }
  }
}

void ProjectTransposeTile(const Omega& omega, const float* grad_u, float* work, float* grad_x) {
  const int64_t d = omega.dim, m = omega.features, n = omega.padded_dim;
  if (omega.IsDense()) {
    Multiply({omega.dense_f32.data(), 1, d}, d, m, grad_u, /*add=*/false, grad_x);
    return;
  }
  std::fill_n(grad_x, d * kLanes, 0.0f);
  for (int64_t first = 0; first < m; first += n) {
    const int64_t rows = std::min(m - first, n);
    std::fill_n(work + rows * kLanes, (n - rows) * kLanes, 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
      const float scale = omega.row_scale[static_cast<size_t>(first + r)];
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        work[r * kLanes + lane] = scale * grad_u[(first + r) * kLanes + lane];
      }
    }
    const auto& parameters = omega.block_parameters[static_cast<size_t>(first / n)];
    for (auto stage = omega.stages.rbegin(); stage != omega.stages.rend(); ++stage) {
      ApplyStage(*stage, n, parameters, true, work);
    }
    for (int64_t i = 0; i < d * kLanes; ++i) grad_x[i] += work[i];
  }
}

void Project(const Omega& omega, const float* x, int64_t rows, const Context& context, float* u) {
  const int64_t d = omega.dim, m = omega.features, n = omega.padded_dim;
  ParallelForBlocks(context, rows, kLanes, [&](int64_t begin, int64_t end) {
    const Scratch<float> scratch(context, (d + m + n) * kLanes);
    float *tile_x = scratch.data(), *tile_u = tile_x + d * kLanes, *work = tile_u + m * kLanes;
    LoadTile(x + begin * d, end - begin, d, tile_x);
    ProjectTile(omega, tile_x, work, tile_u);
    StoreTile(tile_u, end - begin, m, u + begin * m);
  });
}

void ProjectTranspose(const Omega& omega, const float* grad_u, int64_t rows, const Context& context,
                      float* grad_x) {
  const int64_t d = omega.dim, m = omega.features, n = omega.padded_dim;
  ParallelForBlocks(context, rows, kLanes, [&](int64_t begin, int64_t end) {
    const Scratch<float> scratch(context, (d + m + n) * kLanes);
    float *tile_x = scratch.data(), *tile_u = tile_x + d * kLanes, *work = tile_u + m * kLanes;
    LoadTile(grad_u + begin * m, end - begin, m, tile_u);
    ProjectTransposeTile(omega, tile_u, work, tile_x);
    StoreTile(tile_x, end - begin, d, grad_x + begin * d);
  });
}

}  // namespace favor::kernels::cpu
