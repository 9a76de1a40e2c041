#include "core/operation_times.h"

#include <map>
#include <utility>

#include "core/device_graph.h"
#include "core/runtime.h"
#include "core/stopwatch.h"
#include "favor/error.h"

namespace favor {

// Runs from its creation.
class OperationTimes::Watch {
 public:
  virtual ~Watch() = default;
  virtual void Stop() = 0;
  virtual double Seconds() = 0;  // once stopped
};

class OperationTimes::HostWatch : public Watch {
 public:
  void Stop() override { seconds_ = watch_.Seconds(); }
  double Seconds() override { return seconds_; }

 private:
  Stopwatch watch_;
  double seconds_ = 0;
};

class OperationTimes::GpuWatch : public Watch {
 public:
  explicit GpuWatch(const Context& context) : watch_(context) { watch_.Start(); }
  void Stop() override { watch_.Stop(); }
  double Seconds() override { return watch_.Seconds(); }

 private:
  DeviceStopwatch watch_;
};

OperationTimes::OperationTimes(const Context& context) : context_(context) {
  internal::Inside(context).operation_times = this;
}

OperationTimes::~OperationTimes() { internal::Inside(context_).operation_times = nullptr; }

std::unique_ptr<OperationTimes::Watch> OperationTimes::StartWatch() const {
  if (context_.device().type == DeviceType::kCuda) return std::make_unique<GpuWatch>(context_);
  return std::make_unique<HostWatch>();
}

std::vector<OperationTime> OperationTimes::Sums() {
  std::vector<OperationTime> sums;
  std::map<std::pair<std::string_view, std::string_view>, size_t> places;
  for (const Call& call : calls_) {
    const auto [place, is_new] = places.try_emplace({call.name, call.detail}, sums.size());
    if (is_new) sums.push_back({.name = call.name, .detail = call.detail});
    OperationTime& sum = sums[place->second];
    ++sum.calls;
    sum.seconds += call.watch->Seconds();
  }
  return sums;
}

OperationTimer::OperationTimer(const Context& context)
    : times_(internal::Inside(context).operation_times) {
  if (times_ != nullptr && times_->inside_) times_ = nullptr;
}

void OperationTimer::Start(std::string_view name, std::string detail) {
  times_->calls_.push_back(
      {.name = std::string(name), .detail = std::move(detail), .watch = times_->StartWatch()});
  call_ = &times_->calls_.back();
  times_->inside_ = true;
}

OperationTimer::~OperationTimer() {
  if (call_ == nullptr) return;
  times_->inside_ = false;
  try {
    call_->watch->Stop();
  } catch (const Error&) {  // of a GPU, which whoever waits for it will hear of
  }
}

}  // namespace favor
