// Trains a tiny Performer to repeat what it has read, saves it and loads it again.
#include <favor/favor.h>

#include <algorithm>
#include <cstdio>

int main() {
  favor::RunConfig run{.data = "task:copy,length=8,symbols=6", .task = favor::Task::kCausal};
  run.model = favor::Preset("tiny");  // linear attention, positive random features
  run.model.width = 64;
  run.model.ff = 128;
  run.training.steps = 150;
  run.training.batch = 32;
  run.training.warmup = 20;
  run.training.learning_rate = 3e-3;
  run.training.dropout = 0;

  const favor::Context context;
  favor::Trainer trainer(run, context);
  while (trainer.step() < run.training.steps) {
    const favor::StepReport report = trainer.Step();
    if (report.step % 50 == 0)
      std::printf("step %d: loss %.3f, accuracy %.3f\n", static_cast<int>(report.step), report.loss,
                  report.accuracy);
  }
  trainer.SaveModel("copy.safetensors");

  const favor::Model model = favor::Model::Load("copy.safetensors");
  std::remove("copy.safetensors");
  const favor::Batch batch =
      trainer.data().EvalBatch(favor::Split::kTest, {.index = 0, .batch = 64, .length = 16});
  const favor::Score score = model.Evaluate(batch, context);
  std::printf("%d parameters; new sequences: accuracy %.3f\n",
              static_cast<int>(model.ParameterCount()), score.Accuracy());
  return score.Accuracy() > 0.9 ? 0 : 1;
}
