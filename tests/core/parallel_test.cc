#include "core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <stdexcept>

#include "core/runtime.h"
#include "core/scratch.h"
#include "core/tally.h"
#include "favor/error.h"

namespace favor {
namespace {

TEST(Context, RefusesAbsurdThreadCounts) {
  EXPECT_THROW(Context({.threads = -1}), Error);
  EXPECT_THROW(Context({.threads = Context::kMaxThreads + 1}), Error);
  EXPECT_GE(Context().threads(), 1);
  EXPECT_EQ(Context({.threads = 3}).threads(), 3);
}

TEST(ParallelFor, VisitsEveryPieceOnce) {
  for (const int threads : {1, 2, 3, 8, 16}) {
    const Context context({.threads = threads});
    std::vector<std::atomic<int>> visits(1000);
    ParallelFor(context, 1000, [&](int64_t piece) { ++visits[static_cast<size_t>(piece)]; });
    for (const auto& count : visits) EXPECT_EQ(count, 1);
  }
}

TEST(ParallelFor, PassesExceptionsOn) {
  for (const int threads : {1, 4}) {
    const Context context({.threads = threads});
    EXPECT_THROW(ParallelFor(context, 100,
                             [](int64_t piece) {
                               if (piece == 57) throw std::runtime_error("piece 57");
                             }),
                 std::runtime_error);
  }
}

TEST(ParallelReduce, GivesTheSameBitsForAnyNumberOfThreads) {
  // Terms of very different size: any other order of additions gives another float.
  const auto sum = [](int threads) {
    const Context context({.threads = threads});
    return ParallelReduce(
        context, 100001, 128, 0.0f,
        [](int64_t begin, int64_t end) {
          float part = 0;
          for (int64_t i = begin; i < end; ++i)
            part += std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(i % 37));
          return part;
        },
        [](float& total, float part) { total += part; });
  };
  const float one = sum(1);
  for (const int threads : {2, 3, 8, 16}) EXPECT_EQ(sum(threads), one) << threads;
}

TEST(Scratch, IsReusedAndAligned) {
  const Context context({.threads = 1});
  float* first = nullptr;
  {
    const Scratch<float> scratch(context, 100);
    first = scratch.data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
    const Scratch<float> other(context, 100);
    EXPECT_NE(other.data(), first);
  }
  const Scratch<double> again(context, 10);
  EXPECT_EQ(internal::Inside(context).scratch.FreeBytes(), 400);
}

TEST(Scratch, GrowsInsteadOfKeepingEverySize) {
  const Context context({.threads = 1});
  const ScratchPool& pool = internal::Inside(context).scratch;
  { const Scratch<float> a(context, 100), b(context, 300), c(context, 200); }
  EXPECT_EQ(pool.FreeBytes(), 2400);
  {
    const Scratch<float> larger(context, 400);  // in the place of the largest, 300
    EXPECT_EQ(pool.FreeBytes(), 1200);
    const Scratch<float> fits(context, 150);  // the smallest that is large enough, 200
    EXPECT_EQ(pool.FreeBytes(), 400);
    const Scratch<float> largest(context, 500), another(context, 600);  // one more than before
    EXPECT_EQ(pool.FreeBytes(), 0);
  }
  EXPECT_EQ(pool.FreeBytes(), 4 * (400 + 200 + 500 + 600));
}

TEST(Scratch, KeepsABoundedAmountAndGivesItBack) {
  const Context context({.threads = 1});
  const ScratchPool& pool = internal::Inside(context).scratch;
  constexpr int64_t kFloats = ScratchPool::kMostFreeBytes / 4 / 5 * 2;  // two of these are kept
  {
    const Scratch<float> first(context, kFloats), second(context, kFloats);
    EXPECT_EQ(pool.FreeBytes(), 0);
  }
  EXPECT_EQ(pool.FreeBytes(), 2 * 4 * kFloats);
  { const Scratch<float> larger(context, 2 * kFloats); }  // returned last: the two must go
  EXPECT_EQ(pool.FreeBytes(), 8 * kFloats);
  { const Scratch<float> beyond(context, 5 * kFloats); }
  EXPECT_EQ(pool.FreeBytes(), 0);
  { const Scratch<float> some(context, 100); }
  EXPECT_EQ(pool.FreeBytes(), 400);
  context.ReleaseScratch();
  EXPECT_EQ(pool.FreeBytes(), 0);
}

TEST(Context, RefusesAGpuThatIsNotThere) {
  EXPECT_EQ(Context().device(), Device{});
  try {
    const Context context({.device = {.type = DeviceType::kCuda, .index = 999}});
    ADD_FAILURE() << "a context of GPU 999";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  }
}

TEST(Tally, HoldsWhatOperationsAdd) {
  const Context context;
  Tally tally(context, 3);
  tally.At(1)->unusable += 2;
  tally.At(2)->loss += 0.5;
  const std::vector<TallyEntry> entries = tally.Read();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].unusable, 0);
  EXPECT_EQ(entries[1].unusable, 2);
  EXPECT_EQ(entries[2].loss, 0.5);
  tally.Clear();
  EXPECT_EQ(tally.Read()[1].unusable, 0);
}

TEST(Tally, BringsFloatsAlong) {
  const Context context;
  for (const int64_t entries : {1, 3, 8}) {
    Tally tally(context, entries, 5);
    const View floats = tally.Floats();
    ASSERT_EQ(floats.shape(), Shape({5}));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(floats.data()) % 64, 0u);
    for (int i = 0; i < 5; ++i) floats.Data<float>()[i] = static_cast<float>(i) + 0.5f;
    tally.At(entries - 1)->unusable = 7;
    std::vector<float> read(5);
    const std::vector<TallyEntry> found = tally.Read(read);
    EXPECT_EQ(found.size(), static_cast<size_t>(entries));
    EXPECT_EQ(found.back().unusable, 7);
    EXPECT_EQ(read, (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f, 4.5f}));
    tally.Clear();
    EXPECT_EQ(tally.Read(read).back().unusable, 0);
    EXPECT_EQ(read[4], 4.5f);
  }
}

}  // namespace
}  // namespace favor
