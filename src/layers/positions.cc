#include "layers/positions.h"

#include <algorithm>
#include <cmath>

#include "core/element.h"
#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::layers {

void WaveTable::Cover(int64_t first, int64_t length) {
  const int64_t have = table_.shape().rank() == 3 ? table_.shape()[0] : 0;
  offset_ = first - table_first_;
  if (offset_ >= 0 && offset_ + length <= have) return;
  table_first_ = first;
  offset_ = 0;
  const int64_t angles = width_ / 2;
  table_ = Tensor({length, angles, 2}, type_);
  void* data = table_.view().data();
  for (int64_t i = 0; i < angles; ++i) {
    const double frequency =
        std::pow(10000.0, -2 * static_cast<double>(i) / static_cast<double>(width_));
    for (int64_t position = 0; position < length; ++position) {
      const double angle = static_cast<double>(first + position) * frequency;
      StoreElement(data, type_, 2 * (position * angles + i), std::cos(angle));
      StoreElement(data, type_, 2 * (position * angles + i) + 1, std::sin(angle));
    }
  }
}

void WaveTable::AddTo(const Context& context, int64_t length, View x) const {
  kernels::cpu::WithType(type_, [&]<class T>(T) {
    ParallelForBlocks(context, x.size(0), kernels::cpu::RowsOfTask(width_),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t row = begin; row < end; ++row) {
                          const T* waves = table_.Data<T>() + (offset_ + row % length) * width_;
                          T* to = x.Data<T>() + row * width_;
                          for (int64_t i = 0; i < width_; i += 2) {
                            to[i] += waves[i + 1];
                            to[i + 1] += waves[i];
                          }
                        }
                      });
  });
}

void WaveTable::Rotate(const Context& context, int64_t length, bool back, View x) const {
  kernels::cpu::WithType(type_, [&]<class T>(T) {
    const int64_t columns = x.size(1), half = width_ / 2;
    ParallelForBlocks(
        context, x.size(0), kernels::cpu::RowsOfTask(columns), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            const T* waves = table_.Data<T>() + (offset_ + row % length) * width_;
            for (int64_t head = 0; head < columns; head += width_) {
              T *low = x.Data<T>() + row * columns + head, *high = low + half;
              for (int64_t i = 0; i < half; ++i) {
                const T cosine = waves[2 * i], sine = back ? -waves[2 * i + 1] : waves[2 * i + 1];
                const T a = low[i], b = high[i];
                low[i] = cosine * a - sine * b;
                high[i] = sine * a + cosine * b;
              }
            }
          }
        });
  });
}

}  // namespace favor::layers
