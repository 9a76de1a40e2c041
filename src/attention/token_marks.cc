#include "attention/token_marks.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "core/device_work.h"
#include "core/error_text.h"
#include "core/hash.h"

namespace favor::attention {

using kernels::AttentionProblem;

namespace {

// A mask of [L], [B, L] or [B, H_kv, L] as f32 [batch, kv_heads, length], without a copy if it is
// f32 (else in `own`), all on the CPU. Throws unless it fits and holds 0 and 1 only.
ConstView ExpandMask(const ConstView& mask, int64_t batch, int64_t kv_heads, int64_t length,
                     Tensor& own) {
  if (mask.data() == nullptr) return {};
  const int rank = mask.rank();
  const bool fits = rank >= 1 && rank <= 3 && mask.size(rank - 1) == length &&
                    (rank < 2 || mask.size(0) == batch) && (rank < 3 || mask.size(1) == kv_heads);
  if (!fits) {
    Throw(ErrorCode::kInvalidData, "key mask",
          "given shape {}, expected [{}], [{}, {}] or [{}, {}, {}]", mask.shape().ToString(),
          length, batch, length, batch, kv_heads, length);
  }
  ConstView floats = mask;
  if (mask.type() != DataType::kF32 || mask.stride(rank - 1) != 1) {
    own = Tensor(mask.shape());
    Copy(mask, own);
    floats = std::as_const(own).view();
  }
  const ConstView expanded(floats.data(), DataType::kF32, {batch, kv_heads, length},
                           {rank >= 2 ? floats.stride(0) : 0, rank == 3 ? floats.stride(1) : 0, 1},
                           Device{});
  for (int64_t b = 0; b < (rank >= 2 ? batch : 1); ++b) {
    for (int64_t h = 0; h < (rank == 3 ? kv_heads : 1); ++h) {
      const float* values = expanded.At(b).At(h).Data<float>();
      const auto bad =
          std::find_if(values, values + length, [](float x) { return x != 0 && x != 1; });
      if (bad != values + length)
        Throw(ErrorCode::kInvalidData, "key mask",
              "given the value {}, expected 0 (no such key) or 1", *bad);
    }
  }
  return expanded;
}

}  // namespace

TokenMarks::TokenMarks(const ConstView& mask, const ConstView& log_decay, const Context& context,
                       AttentionProblem& problem) {
  if (mask.data() != nullptr) {
    given_mask_.emplace(mask);
    mask_ = ExpandMask(given_mask_->view(), problem.batch, problem.kv_heads, problem.key_length,
                       own_mask_);
  }
  if (log_decay.data() != nullptr)
    log_decay_ = ExpandLogDecay(HostCopy(log_decay).view(), mask_, problem);
  problem.mask = mask_;
  problem.log_decay = std::as_const(log_decay_).view();
  if (context.device().type == DeviceType::kCpu) return;
  if (!mask_.empty()) {
    // What all batches or heads share is sent once.
    const int64_t batches = mask_.stride(0) == 0 ? 1 : mask_.size(0),
                  heads = mask_.stride(1) == 0 ? 1 : mask_.size(1), length = mask_.size(2);
    Tensor own({batches, heads, length});
    Copy(mask_.Range(0, 0, batches).Range(1, 0, heads), own);
    sent_mask_ = SendTensor(std::move(own), context);
    problem.mask =
        ConstView(std::as_const(sent_mask_).view().data(), DataType::kF32, mask_.shape(),
                  {batches > 1 ? heads * length : 0, heads > 1 ? length : 0, 1}, context.device());
  }
  if (!log_decay_.empty()) {
    sent_log_decay_ = SendTensor(log_decay_.Clone(), context);
    problem.log_decay = std::as_const(sent_log_decay_).view();
  }
}

TokenMarks TokenMarks::OfModel(const ConstView& mask, const ConstView& log_decay,
                               const Context& context, AttentionProblem& problem) {
  if (context.device().type == DeviceType::kCpu) return {mask, log_decay, context, problem};
  if (!mask.empty())
    problem.mask =
        ConstView(mask.data(), mask.type(), {problem.batch, problem.kv_heads, problem.key_length},
                  {mask.stride(0), 0, mask.stride(1)}, mask.device());
  problem.log_decay = log_decay;
  return {};
}

Tensor ExpandLogDecay(const ConstView& given, const ConstView& mask,
                      const AttentionProblem& problem) {
  constexpr std::string_view kName = "log_decay";
  const int rank = given.rank();
  const int64_t length = problem.key_length;
  const int64_t rows = rank >= 2 ? given.size(rank - 2) : 1;
  const bool fits = rank >= 1 && rank <= 3 && given.size(rank - 1) == length &&
                    (rank < 2 || rows == problem.heads || rows == problem.kv_heads) &&
                    (rank < 3 || given.size(0) == problem.batch);
  if (!fits) {
    Throw(ErrorCode::kInvalidData, kName, "given shape {}, expected [{}], [{}, {}] or [{}, {}, {}]",
          given.shape().ToString(), length, problem.heads, length, problem.batch, problem.heads,
          length);
  }
  Tensor expanded({problem.batch, problem.heads, length}, DataType::kF64);
  for (int64_t group = 0; group < problem.Groups(); ++group) {
    ConstView row = rank == 3 ? given.At(problem.Batch(group)) : given;
    if (rank >= 2) row = row.At(problem.Head(group) / (problem.heads / rows));
    double* to = expanded.Data<double>() + group * length;
    Copy(row, View(to, {length}));
    const float* exists = mask.empty() ? nullptr : problem.OfKeys(mask, group).Data<float>();
    for (int64_t i = 0; i < length; ++i) {
      if (exists != nullptr && exists[i] == 0) to[i] = 0;  // what a mask hides may hold anything
      if (!(to[i] <= 0 && to[i] >= kernels::kLeastLogDecay))
        Throw(ErrorCode::kInvalidData, kName, "given {} at {}, expected {:.0e} to 0", to[i], i,
              kernels::kLeastLogDecay);
    }
  }
  return expanded;
}

uint64_t HashOf(const ConstView& mask) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a over keys
  if (mask.empty()) return hash;
  for (int64_t b = 0; b < mask.size(0); ++b) {
    for (int64_t h = 0; h < mask.size(1); ++h) {
      const float* values = mask.At(b).At(h).Data<float>();
      for (int64_t i = 0; i < mask.size(2); ++i)
        hash = (hash ^ (values[i] != 0 ? 1 : 2)) * 0x100000001b3;
    }
  }
  return hash;
}

uint64_t HashOfNumbers(const Tensor& numbers) {
  Hasher hash;
  if (!numbers.empty())
    hash.Add(std::as_bytes(
        std::span(numbers.Data<double>(), static_cast<size_t>(numbers.shape().Elements()))));
  return hash.Value();
}

}  // namespace favor::attention
