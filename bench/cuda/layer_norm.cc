// Layer norm on a GPU, which is bound by memory: of_copy is the time of a device copy that moves as
// many bytes divided by the time of the kernel, measured in turns in one run, so that 1 is the
// limit that memory sets.
#include "kernels/layer_norm.h"

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <stdexcept>

#include "core/device.h"
#include "core/device_work.h"

namespace favor {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};
constexpr int64_t kElements = int64_t{1}
                              << 26;  // elements per array: several times what a cache holds
constexpr int kCalls = 10;            // calls timed at once: one launch costs microseconds
constexpr int kRounds = 20;

void Check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

// Measures the seconds of work on a stream.
class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    Check(cudaEventCreate(&begin_));
    Check(cudaEventCreate(&end_));
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  template <class Work>
  double SecondsOf(const Work& work) const {
    Check(cudaEventRecord(begin_, stream_));
    for (int call = 0; call < kCalls; ++call) work();
    Check(cudaEventRecord(end_, stream_));
    Check(cudaEventSynchronize(end_));
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return milliseconds / 1e3 / kCalls;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Values between −1 and 1 with a long period.
Tensor Values(const Shape& shape) {
  Tensor values(shape);
  for (int64_t i = 0; i < shape.Elements(); ++i)
    values.Data<float>()[i] = static_cast<float>(i * 7919 % 100003) / 50001 - 1;
  return values.To(kGpu);
}

// Runs `work`, which moves `bytes`, in turns with a copy of half as many, which moves as many.
template <class Work>
void Measure(benchmark::State& state, const Context& context, int64_t bytes, const Work& work) {
  const Tensor from({bytes / 8}, DataType::kF32, kGpu);
  Tensor to({bytes / 8}, DataType::kF32, kGpu);
  const auto stream = static_cast<cudaStream_t>(UseStream(context));
  const Timer timer(stream);
  const auto copy = [&] {
    Check(cudaMemcpyAsync(to.Data<float>(), from.Data<float>(), static_cast<size_t>(bytes / 2),
                          cudaMemcpyDeviceToDevice, stream));
  };
  timer.SecondsOf(copy);  // warm-up
  timer.SecondsOf(work);
  double copy_seconds = 0, seconds = 0;
  for (auto _ : state) {
    copy_seconds += timer.SecondsOf(copy);
    const double of_work = timer.SecondsOf(work);
    seconds += of_work;
    state.SetIterationTime(of_work);
  }
  state.counters["of_copy"] = copy_seconds / seconds;
  state.counters["TB/s"] =
      static_cast<double>(bytes) * static_cast<double>(state.iterations()) / seconds / 1e12;
}

bool SkipWithoutGpu(benchmark::State& state) {
  if (!ListGpus().empty()) return false;
  state.SkipWithError("no GPU on this machine");
  return true;
}

void Forward(benchmark::State& state) {
  if (SkipWithoutGpu(state)) return;
  const int64_t width = state.range(0), rows = kElements / width;
  const Context context({.device = kGpu});
  const Tensor x = Values({rows, width}), gain = Values({width}), bias = Values({width});
  Tensor y({rows, width}, DataType::kF32, kGpu), statistics({rows, 2}, DataType::kF32, kGpu);
  Measure(state, context, x.Bytes() + y.Bytes() + statistics.Bytes(), [&] {
    kernels::LayerNorm(
        {.x = x, .gain = gain, .bias = bias, .epsilon = 1e-5, .statistics = statistics, .y = y},
        context);
  });
}

void Backward(benchmark::State& state) {
  if (SkipWithoutGpu(state)) return;
  const int64_t width = state.range(0), rows = kElements / width;
  const bool add = state.range(1) != 0;
  const Context context({.device = kGpu});
  const Tensor x = Values({rows, width}), grad_y = Values({rows, width});
  const Tensor statistics = Values({rows, 2}), gain = Values({width});
  Tensor grad_x({rows, width}, DataType::kF32, kGpu);
  Tensor grad_gain({width}, DataType::kF32, kGpu), grad_bias({width}, DataType::kF32, kGpu);
  Measure(state, context, (add ? 4 : 3) * x.Bytes() + statistics.Bytes(), [&] {
    kernels::LayerNormBackward({.x = x,
                                .gain = gain,
                                .statistics = statistics,
                                .grad_y = grad_y,
                                .add = add,
                                .grad_x = grad_x,
                                .grad_gain = grad_gain,
                                .grad_bias = grad_bias},
                               context);
  });
}

void Sizes(benchmark::internal::Benchmark* bench) {
  bench->UseManualTime()->Iterations(kRounds)->Unit(benchmark::kMicrosecond);
  bench->ArgNames({"width", "add"});
  for (const int64_t width : {64, 130, 512, 768, 1024, 2048, 4096, 8192}) bench->Args({width, 0});
}

BENCHMARK(Forward)->Name("LayerNorm")->Apply(Sizes);
BENCHMARK(Backward)->Name("LayerNormBackward")->Apply(Sizes)->Args({1024, 1});

}  // namespace
}  // namespace favor
