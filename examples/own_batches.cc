// Trains on batches that the program makes itself, then lets two trainers learn together: each
// reads half of the batches, and their gradients are summed, as MPI or NCCL would do it.
#include <favor/favor.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

namespace {

constexpr int64_t kVocab = 32, kSequences = 8, kLength = 24;

// Sequences that count upwards, each by its own step: 5, 8, 11, 14, …
favor::Batch CountingBatch(uint64_t index) {
  const favor::RandomStream stream = favor::RandomStream(7, "counting").Child(index);
  favor::Batch batch{.batch = kSequences, .length = kLength};
  for (uint64_t i = 0; i < kSequences; ++i) {
    const auto start = static_cast<int64_t>(stream.Bits(2 * i) % kVocab);
    const auto by = static_cast<int64_t>(1 + stream.Bits(2 * i + 1) % 5);
    for (int64_t t = 0; t < kLength; ++t) {
      batch.tokens.push_back(static_cast<int32_t>((start + t * by) % kVocab));
      // Nobody can know the second number: it is not a target.
      batch.targets.push_back(t == 0 ? favor::kNoTarget
                                     : static_cast<int32_t>((start + (t + 1) * by) % kVocab));
    }
  }
  return batch;
}

favor::RunConfig Config() {
  favor::RunConfig run{.task = favor::Task::kCausal};  // no data: batches come from outside
  run.model = favor::Preset("tiny");
  run.model.vocab = kVocab;
  run.model.width = 64;
  run.model.ff = 128;
  run.model.positions = favor::Positions::kRotary;
  run.model.convolution = 3;
  run.training.steps = 150;
  run.training.warmup = 20;
  run.training.learning_rate = 3e-3;
  run.training.dropout = 0;
  return run;
}

// The largest difference of two models' weights.
double Distance(favor::Model& a, favor::Model& b) {
  double largest = 0;
  const auto of_a = a.Parameters(), of_b = b.Parameters();
  for (size_t p = 0; p < of_a.size(); ++p) {
    const float *x = of_a[p].value.Data<float>(), *y = of_b[p].value.Data<float>();
    for (int64_t i = 0; i < of_a[p].value.shape().Elements(); ++i)
      largest = std::max(largest, static_cast<double>(std::fabs(x[i] - y[i])));
  }
  return largest;
}

}  // namespace

int main() {
  const favor::Context context;
  favor::Trainer trainer(Config(), context);
  double first = 0, last = 0;
  while (trainer.step() < Config().training.steps) {
    const std::vector<favor::Batch> batches = {
        CountingBatch(static_cast<uint64_t>(trainer.step()))};
    last = trainer.Step(batches).loss;
    if (trainer.step() == 1) first = last;
  }
  std::printf("loss of the first step %.3f, of the last %.3f\n", first, last);

  // Two processes would each have one of these; `whole` reads both halves by itself.
  favor::Trainer ranks[] = {favor::Trainer(Config(), context), favor::Trainer(Config(), context)};
  favor::Trainer whole(Config(), context);
  for (uint64_t step = 0; step < 5; ++step) {
    const std::vector<favor::Batch> batches = {CountingBatch(2 * step),
                                               CountingBatch(2 * step + 1)};
    whole.Step(batches);
    const std::span<const favor::Batch> halves[] = {{&batches[0], 1}, {&batches[1], 1}};
    int64_t targets = 0;
    for (size_t rank = 0; rank < 2; ++rank) targets += ranks[rank].CountTargets(halves[rank]);
    for (size_t rank = 0; rank < 2; ++rank) ranks[rank].AddGradients(halves[rank], targets);
    // Stands for an all-reduce.
    const favor::View a = ranks[0].Gradients(), b = ranks[1].Gradients();
    for (int64_t i = 0; i < a.size(0); ++i)
      a.Data<float>()[i] = b.Data<float>()[i] = a.Data<float>()[i] + b.Data<float>()[i];
    for (favor::Trainer& rank : ranks) rank.Update();
  }
  const double apart = Distance(ranks[0].model(), ranks[1].model());
  const double from_whole = Distance(ranks[0].model(), whole.model());
  std::printf("two ranks are %g apart from each other, %g from one that read all\n", apart,
              from_whole);
  return last < 0.2 * first && apart == 0 && from_whole < 1e-3 ? EXIT_SUCCESS : EXIT_FAILURE;
}
