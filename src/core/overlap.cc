#include "core/overlap.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace favor {
namespace {

struct Range {
  explicit Range(const ConstView& view) {
    int64_t low = 0, high = 0;
    for (int axis = 0; axis < view.rank(); ++axis) {
      const int64_t reach = (view.size(axis) - 1) * view.stride(axis);
      (reach < 0 ? low : high) += reach;
    }
    const auto base = reinterpret_cast<intptr_t>(view.data());
    const int64_t item = ItemBytes(view.type());
    begin = base + low * item;
    end = base + (high + 1) * item;
  }
  intptr_t begin, end;
};

// Steps along an axis: `stride` elements each, at most `most` of them up and `least` down.
struct Axis {
  int64_t stride, least, most;
};

// Whether some whole numbers of steps, within bounds, add up to `distance`. With axes from the
// largest stride to the smallest, each larger than all that follow together, only the two nearest
// numbers of steps are possible.
bool Reachable(const std::vector<Axis>& axes, size_t axis, int64_t distance) {
  if (axis == axes.size()) return distance == 0;
  const Axis& a = axes[axis];
  const int64_t below =
      distance >= 0 ? distance / a.stride : -((-distance + a.stride - 1) / a.stride);
  for (const int64_t steps : {below, below + 1}) {
    if (steps >= a.least && steps <= a.most &&
        Reachable(axes, axis + 1, distance - steps * a.stride))
      return true;
  }
  return false;
}

// Whether elements with different indices never share memory, for indices below the larger of two
// shapes.
bool IsNested(const ConstView& a, const ConstView& b) {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (int axis = 0; axis < a.rank(); ++axis) {
    const int64_t size = std::max(a.size(axis), b.size(axis));
    if (size > 1) axes.emplace_back(std::abs(a.stride(axis)), size);
  }
  std::sort(axes.begin(), axes.end());
  int64_t extent = 1;
  for (const auto& [stride, size] : axes) {
    if (stride < extent) return false;
    extent += (size - 1) * stride;
  }
  return true;
}

}  // namespace

bool Overlap(const ConstView& a, const ConstView& b) {
  if (a.empty() || b.empty()) return false;
  if (a.shape().Elements() == 0 || b.shape().Elements() == 0) return false;
  if (a.device() != b.device()) return false;
  const Range ra(a), rb(b);
  if (ra.end <= rb.begin || rb.end <= ra.begin) return false;
  const int64_t item = ItemBytes(a.type());
  const int64_t bytes = reinterpret_cast<intptr_t>(b.data()) - reinterpret_cast<intptr_t>(a.data());
  const bool one_layout = a.type() == b.type() && a.rank() == b.rank() &&
                          a.strides() == b.strides() && bytes % item == 0 && IsNested(a, b);
  if (!one_layout) return true;
  std::vector<Axis> axes;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a.size(axis) > 1 || b.size(axis) > 1)
      axes.push_back({a.stride(axis), 1 - b.size(axis), a.size(axis) - 1});
  }
  std::sort(axes.begin(), axes.end(),
            [](const Axis& x, const Axis& y) { return x.stride > y.stride; });
  if (!axes.empty() && axes.back().stride <= 0) return true;
  return Reachable(axes, 0, bytes / item);
}

bool OverlapsItself(const ConstView& view) { return !IsNested(view, view); }

}  // namespace favor
