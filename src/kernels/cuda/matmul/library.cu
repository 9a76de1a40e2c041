#include "kernels/cuda/matmul/library.h"

#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "core/shared_library.h"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {
namespace {

// The most scratch memory that a product may take, and the most plans that are kept: generating
// text meets a new number of rows with every prompt.
constexpr uint64_t kMostWorkspaceBytes = uint64_t{32} << 20;
constexpr size_t kMostPlans = 4096;
// The widest access of a kernel. More alignment opens no more kernels, so that plans, and with them
// the order of sums, do not depend on where arrays lie.
constexpr uint32_t kWidestAccess = 16;

// The functions of the library that are called, of any version from 12 on.
struct Functions {
  explicit Functions(const SharedLibrary& library)
      : create(library.Symbol<decltype(cublasLtCreate)>("cublasLtCreate")),
        create_operation(
            library.Symbol<decltype(cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate")),
        set_operation(library.Symbol<decltype(cublasLtMatmulDescSetAttribute)>(
            "cublasLtMatmulDescSetAttribute")),
        destroy_operation(
            library.Symbol<decltype(cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy")),
        create_layout(
            library.Symbol<decltype(cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate")),
        destroy_layout(
            library.Symbol<decltype(cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy")),
        create_preference(library.Symbol<decltype(cublasLtMatmulPreferenceCreate)>(
            "cublasLtMatmulPreferenceCreate")),
        set_preference(library.Symbol<decltype(cublasLtMatmulPreferenceSetAttribute)>(
            "cublasLtMatmulPreferenceSetAttribute")),
        destroy_preference(library.Symbol<decltype(cublasLtMatmulPreferenceDestroy)>(
            "cublasLtMatmulPreferenceDestroy")),
        choose(library.Symbol<decltype(cublasLtMatmulAlgoGetHeuristic)>(
            "cublasLtMatmulAlgoGetHeuristic")),
        multiply(library.Symbol<decltype(cublasLtMatmul)>("cublasLtMatmul")) {}

  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmulDescCreate) create_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose;
  decltype(&cublasLtMatmul) multiply;
};

template <class T>
using Descriptor = std::unique_ptr<T, cublasStatus_t (*)(T*)>;
using Operation = Descriptor<cublasLtMatmulDescOpaque_t>;
using Layout = Descriptor<cublasLtMatrixLayoutOpaque_t>;
using Preference = Descriptor<cublasLtMatmulPreferenceOpaque_t>;

bool Succeeds(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }

cudaDataType TypeOf(DataType type) { return type == DataType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

// A matrix as runs of neighbouring elements that begin `step` elements apart: its rows, or its
// columns.
struct Runs {
  bool are_columns;
  int64_t step;
};

std::optional<Runs> RunsAlong(bool columns, const MatrixProduct::Matrix& m, int64_t row_count,
                              int64_t column_count) {
  const int64_t length = columns ? row_count : column_count;
  const int64_t count = columns ? column_count : row_count;
  const int64_t within = columns ? m.row : m.column, step = columns ? m.column : m.row;
  if (length > 1 && within != 1) return std::nullopt;
  // There is no run after the only one: any step will do, so an aligned one.
  if (count == 1) return Runs{columns, (length + 7) / 8 * 8};
  if (step < length) return std::nullopt;
  return Runs{columns, step};
}

// Longer runs are better if a matrix of one row or column can be seen in both ways.
std::optional<Runs> RunsOf(const MatrixProduct::Matrix& m, int64_t rows, int64_t columns) {
  const bool first = rows > columns;
  const std::optional<Runs> runs = RunsAlong(first, m, rows, columns);
  return runs ? runs : RunsAlong(!first, m, rows, columns);
}

uint32_t AlignmentOf(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | kWidestAccess;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

// What a plan depends on.
struct Kind {
  DataType type, result_type;
  int64_t rows, columns, depth;
  Runs a, b, c;
  uint32_t a_alignment, b_alignment, addend_alignment, c_alignment;
  uint32_t bias_alignment;  // 0: no bias

  auto Fields() const {
    return std::tie(type, result_type, rows, columns, depth, a.are_columns, a.step, b.are_columns,
                    b.step, c.step, a_alignment, b_alignment, addend_alignment, c_alignment,
                    bias_alignment);
  }
  friend bool operator<(const Kind& x, const Kind& y) { return x.Fields() < y.Fields(); }
};

std::optional<Kind> KindOf(const MatrixProduct& p) {
  if (p.depth == 0 || std::max({p.rows, p.columns, p.depth}) > std::numeric_limits<int32_t>::max())
    return std::nullopt;
  if (p.bias != nullptr && p.type != p.result_type) return std::nullopt;
  const auto a = RunsOf(p.a, p.rows, p.depth), b = RunsOf(p.b, p.depth, p.columns),
             c = RunsAlong(/*columns=*/false, {p.c, p.c_row, 1}, p.rows, p.columns);
  if (!a || !b || !c) return std::nullopt;
  return Kind{.type = p.type,
              .result_type = p.result_type,
              .rows = p.rows,
              .columns = p.columns,
              .depth = p.depth,
              .a = *a,
              .b = *b,
              .c = *c,
              .a_alignment = AlignmentOf(p.a.data),
              .b_alignment = AlignmentOf(p.b.data),
              .addend_alignment = AlignmentOf(p.addend != nullptr ? p.addend : p.c),
              .c_alignment = AlignmentOf(p.c),
              .bias_alignment = p.bias != nullptr ? AlignmentOf(p.bias) : 0};
}

struct Plan {
  Operation operation;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;
};

// The library on one GPU. cuBLASLt counts by columns, so it computes Cᵀ = Bᵀ·Aᵀ: its first operand
// is B, and a bias for each row of its result is one for each column of C.
class Library {
 public:
  // For the current GPU.
  explicit Library(const SharedLibrary& library) : functions_(library) {
    if (!Succeeds(functions_.create(&handle_))) handle_ = nullptr;
  }

  bool IsUsable() const { return handle_ != nullptr; }

  bool Multiply(const MatrixProduct& p, const Kind& kind, const Context& context,
                cudaStream_t stream) {
    // One call at a time: the operation of a plan holds the bias of the call.
    const std::lock_guard lock(mutex_);
    const std::optional<Plan>& plan = PlanOf(kind);
    if (!plan) return false;
    if (p.bias != nullptr &&
        !SetOperation(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias))
      return false;
    std::optional<DeviceScratch<std::byte>> workspace;
    if (plan->workspace_bytes > 0)
      workspace.emplace(context, static_cast<int64_t>(plan->workspace_bytes));
    const float one = 1, addend_factor = p.addend != nullptr ? 1 : 0;
    return Succeeds(functions_.multiply(
        handle_, plan->operation.get(), &one, p.b.data, plan->b.get(), p.a.data, plan->a.get(),
        &addend_factor, p.addend != nullptr ? p.addend : p.c, plan->c.get(), p.c, plan->c.get(),
        &plan->algorithm, workspace ? workspace->data() : nullptr, plan->workspace_bytes, stream));
  }

 private:
  template <class Value>
  bool SetOperation(const Operation& operation, cublasLtMatmulDescAttributes_t attribute,
                    const Value& value) const {
    return Succeeds(functions_.set_operation(operation.get(), attribute, &value, sizeof value));
  }
  template <class Value>
  bool SetPreference(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
                     const Value& value) const {
    return Succeeds(functions_.set_preference(preference.get(), attribute, &value, sizeof value));
  }

  // None: cuBLASLt does not take such products.
  const std::optional<Plan>& PlanOf(const Kind& kind) {
    const auto found = plans_.find(kind);
    if (found != plans_.end()) return found->second;
    if (plans_.size() >= kMostPlans) plans_.clear();
    return plans_.emplace(kind, MakePlan(kind)).first->second;
  }

  std::optional<Plan> MakePlan(const Kind& kind) const {
    Operation operation = MakeOperation(kind);
    Layout a = LayoutOf(kind.type, kind.a, kind.rows, kind.depth),
           b = LayoutOf(kind.type, kind.b, kind.depth, kind.columns),
           c = LayoutOf(kind.result_type, kind.c, kind.rows, kind.columns);
    const Preference preference = MakePreference(kind);
    if (!operation || !a || !b || !c || !preference) return std::nullopt;
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    if (!Succeeds(functions_.choose(handle_, operation.get(), b.get(), a.get(), c.get(), c.get(),
                                    preference.get(), 1, &result, &count)) ||
        count == 0 || !Succeeds(result.state))
      return std::nullopt;
    return Plan{.operation = std::move(operation),
                .a = std::move(a),
                .b = std::move(b),
                .c = std::move(c),
                .algorithm = result.algo,
                .workspace_bytes = result.workspaceSize};
  }

  // Sums are f32, and f32 operands are not rounded to TF32.
  Operation MakeOperation(const Kind& kind) const {
    cublasLtMatmulDesc_t made = nullptr;
    if (!Succeeds(functions_.create_operation(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F)))
      made = nullptr;
    Operation operation(made, functions_.destroy_operation);
    const auto transposed = [](bool yes) { return yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
    bool is_set =
        operation != nullptr &&
        SetOperation(operation, CUBLASLT_MATMUL_DESC_TRANSA, transposed(kind.b.are_columns)) &&
        SetOperation(operation, CUBLASLT_MATMUL_DESC_TRANSB, transposed(kind.a.are_columns));
    if (is_set && kind.bias_alignment > 0) {
      // Of the address only the alignment counts until the product runs.
      const auto address = reinterpret_cast<const void*>(uintptr_t{kind.bias_alignment});
      is_set = SetOperation(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS) &&
               SetOperation(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, address);
    }
    if (!is_set) operation.reset();
    return operation;
  }

  // Runs are the columns of what cuBLASLt sees.
  Layout LayoutOf(DataType type, const Runs& runs, int64_t rows, int64_t columns) const {
    const int64_t length = runs.are_columns ? rows : columns,
                  count = runs.are_columns ? columns : rows;
    cublasLtMatrixLayout_t made = nullptr;
    if (!Succeeds(functions_.create_layout(&made, TypeOf(type), static_cast<uint64_t>(length),
                                           static_cast<uint64_t>(count), runs.step)))
      made = nullptr;
    return Layout(made, functions_.destroy_layout);
  }

  Preference MakePreference(const Kind& kind) const {
    cublasLtMatmulPreference_t made = nullptr;
    if (!Succeeds(functions_.create_preference(&made))) made = nullptr;
    Preference preference(made, functions_.destroy_preference);
    // Pieces of a long sum may be added in a step of their own, in f32, which has one order. The
    // other schemes let blocks add to C as they finish, or round pieces to the type of C first.
    const uint32_t schemes =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (preference != nullptr &&
        !(SetPreference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                        kMostWorkspaceBytes) &&
          SetPreference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes) &&
          SetPreference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kind.b_alignment) &&
          SetPreference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kind.a_alignment) &&
          SetPreference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                        kind.addend_alignment) &&
          SetPreference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kind.c_alignment)))
      preference.reset();
    return preference;
  }

  const Functions functions_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Kind, std::optional<Plan>> plans_;
};

// Null if the machine does not have the library.
std::unique_ptr<Library> OpenLibrary() {
  try {
    auto library = std::make_unique<Library>(CublasLt());
    return library->IsUsable() ? std::move(library) : nullptr;
  } catch (const Error&) {
    return nullptr;
  }
}

// The library on a GPU, which is the current one.
Library* LibraryOn(int device) {
  static std::mutex mutex;
  // Never destroyed: CUDA may have ended before.
  static auto& libraries = *new std::map<int, std::unique_ptr<Library>>;
  const std::lock_guard lock(mutex);
  const auto found = libraries.find(device);
  if (found != libraries.end()) return found->second.get();
  return libraries.emplace(device, OpenLibrary()).first->second.get();
}

}  // namespace

bool MultiplyByLibrary(const MatrixProduct& p, const Context& context) {
  if (!matmul_library::library_is_used) return false;
  const cudaStream_t stream = StreamOf(context);
  Library* library = LibraryOn(context.device().index);
  if (library == nullptr) return false;
  const std::optional<Kind> kind = KindOf(p);
  if (!kind || !library->Multiply(p, *kind, context, stream)) return false;
  ++matmul_library::products_by_library;
  return true;
}

}  // namespace favor::kernels::cuda
