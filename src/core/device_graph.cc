#include "core/device_graph.h"

#include "core/device.h"
#include "core/device_work.h"
#include "core/error_text.h"
#include "core/runtime.h"

#if FAVOR_CUDA
#include "core/cuda_check.h"
#endif

namespace favor {

int64_t ScratchPeakOf(const Context& context, const std::function<void()>& work) {
  const internal::Runtime& runtime = internal::Inside(context);
  WaitFor(runtime.stream);
  RestartPeak(runtime.scratch_of_device);
  work();
  return PeakOf(runtime.scratch_of_device);
}

#if FAVOR_CUDA

namespace {

cudaStream_t StreamOf(const Context& context) {
  if (context.device().type != DeviceType::kCuda)
    Throw(ErrorCode::kUnavailable, "device graph", "given a context on {}, expected a GPU",
          Name(context.device()));
  return static_cast<cudaStream_t>(UseStream(context));
}

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

void* MakeEvent() {
  cudaEvent_t event = nullptr;
  CheckCuda(cudaEventCreate(&event), "make an event");
  return event;
}

}  // namespace

DeviceGraph::DeviceGraph(const Context& context, const std::function<void()>& work)
    : context_(context), scratch_(context.device()) {
  const cudaStream_t stream = StreamOf(context);
  // Relaxed: memory that the work allocates outside the stream is not part of the graph.
  CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "begin a graph");
  cudaGraph_t captured = nullptr;
  RecordedScratch*& scratch = internal::Inside(context).recorded_scratch;
  scratch = &scratch_;
  try {
    work();
    scratch = nullptr;
  } catch (...) {
    scratch = nullptr;
    cudaStreamEndCapture(stream, &captured);
    if (captured != nullptr) cudaGraphDestroy(captured);
    cudaGetLastError();
    throw;
  }
  CheckCuda(cudaStreamEndCapture(stream, &captured), "end a graph");
  const std::unique_ptr<CUgraph_st, DestroyGraph> graph(captured);
  cudaGraphExec_t executable = nullptr;
  CheckCuda(cudaGraphInstantiate(&executable, captured, 0), "make a graph");
  graph_.reset(executable);
}

void DeviceGraph::Launch() const {
  CheckCuda(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph_.get()), StreamOf(context_)),
            "launch a graph");
}

void DeviceGraph::Destroy::operator()(void* graph) const {
  cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
}

void QueueCopy(void* to, const void* from, int64_t bytes, const Context& context) {
  CheckCuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                            StreamOf(context)),
            "copy");
}

DeviceStopwatch::DeviceStopwatch(const Context& context) : context_(context) {
  StreamOf(context);
  begin_.reset(MakeEvent());
  end_.reset(MakeEvent());
}

void DeviceStopwatch::Start() {
  CheckCuda(cudaEventRecord(static_cast<cudaEvent_t>(begin_.get()), StreamOf(context_)),
            "record an event");
}

void DeviceStopwatch::Stop() {
  CheckCuda(cudaEventRecord(static_cast<cudaEvent_t>(end_.get()), StreamOf(context_)),
            "record an event");
}

double DeviceStopwatch::Seconds() {
  const auto begin = static_cast<cudaEvent_t>(begin_.get()),
             end = static_cast<cudaEvent_t>(end_.get());
  CheckCuda(cudaEventSynchronize(end), "wait for the GPU");
  float milliseconds = 0;
  CheckCuda(cudaEventElapsedTime(&milliseconds, begin, end), "read an event");
  return static_cast<double>(milliseconds) * 1e-3;
}

void DeviceStopwatch::Destroy::operator()(void* event) const {
  cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

#else

DeviceGraph::DeviceGraph(const Context& context, const std::function<void()>&)
    : context_(context), scratch_(context.device()) {
  ThrowWithoutCuda("device graph", context.device());
}
void DeviceGraph::Launch() const { ThrowWithoutCuda("device graph", context_.device()); }
void DeviceGraph::Destroy::operator()(void*) const {}

void QueueCopy(void*, const void*, int64_t, const Context& context) {
  ThrowWithoutCuda("copy", context.device());
}

DeviceStopwatch::DeviceStopwatch(const Context& context) : context_(context) {
  ThrowWithoutCuda("device stopwatch", context.device());
}
void DeviceStopwatch::Start() { ThrowWithoutCuda("device stopwatch", context_.device()); }
void DeviceStopwatch::Stop() { ThrowWithoutCuda("device stopwatch", context_.device()); }
double DeviceStopwatch::Seconds() { ThrowWithoutCuda("device stopwatch", context_.device()); }
void DeviceStopwatch::Destroy::operator()(void*) const {}

#endif

}  // namespace favor
