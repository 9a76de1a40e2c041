#include "kernels/positions.h"

#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {

void Waves(const WavesArguments& a, const Context& context) {
  const int64_t angles = a.waves.size(1);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < angles; ++i) {
    frequencies.push_back(
        std::pow(10000.0, -2 * static_cast<double>(i) / static_cast<double>(2 * angles)));
  }
  WithType(a.waves.type(), [&]<class T>(T) {
    ParallelForBlocks(
        context, a.waves.size(0), RowsOfTask(2 * angles), [&](int64_t begin, int64_t end) {
          for (int64_t position = begin; position < end; ++position) {
            T* to = a.waves.Data<T>() + position * 2 * angles;
            for (const double frequency : frequencies) {
              const double angle = static_cast<double>(a.first + position) * frequency;
              *to++ = static_cast<T>(std::cos(angle));
              *to++ = static_cast<T>(std::sin(angle));
            }
          }
        });
  });
}

void AddWaves(const AddWavesArguments& a, const Context& context) {
  WithType(a.x.type(), [&]<class T>(T) {
    const int64_t width = a.x.size(1), first = a.first.Get();
    ParallelForBlocks(context, a.x.size(0), RowsOfTask(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* waves = a.waves.Data<T>() + (first + row % a.length) * width;
        T* to = a.x.Data<T>() + row * width;
        for (int64_t i = 0; i < width; i += 2) {
          to[i] += waves[i + 1];
          to[i + 1] += waves[i];
        }
      }
    });
  });
}

void Rotate(const RotateArguments& a, const Context& context) {
  WithType(a.x.type(), [&]<class T>(T) {
    const int64_t columns = a.x.size(1), half = a.waves.size(1), width = 2 * half,
                  first = a.first.Get();
    ParallelForBlocks(context, a.x.size(0), RowsOfTask(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* waves = a.waves.Data<T>() + (first + row % a.length) * width;
        for (int64_t head = 0; head < columns; head += width) {
          T *low = a.x.Data<T>() + row * a.x.stride(0) + head, *high = low + half;
          for (int64_t i = 0; i < half; ++i) {
            const T cosine = waves[2 * i], sine = a.back ? -waves[2 * i + 1] : waves[2 * i + 1];
            const T from_low = low[i], from_high = high[i];
            low[i] = cosine * from_low - sine * from_high;
            high[i] = sine * from_low + cosine * from_high;
          }
        }
      }
    });
  });
}

}  // namespace favor::kernels::cpu
