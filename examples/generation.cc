// Learns made-up proteins that repeat eight letters, and continues a prompt: each token costs the
// same, however long the prefix is.
#include <favor/favor.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

int main() {
  const std::string letters = "MKTAYIQR";
  {
    std::ofstream fasta("repeats.fasta");
    for (size_t i = 0; i < 320; ++i) {
      fasta << ">p" << i << "\n";
      for (size_t j = 0; j < 20 + i / 8; ++j) fasta << letters[(i + j) % letters.size()];
      fasta << "\n";
    }
  }
  favor::RunConfig run{.data = "repeats.fasta"};
  run.model.width = 64;
  run.model.ff = 128;
  run.model.positions = favor::Positions::kRotary;
  run.model.features.map = "relu";
  run.training = {
      .steps = 150, .batch = 8, .length = 32, .learning_rate = 3e-3, .warmup = 20, .dropout = 0};
  const favor::Context context;
  favor::Trainer trainer(run, context);
  while (trainer.step() < run.training.steps) trainer.Step();

  const favor::Vocabulary& vocabulary = *trainer.data().vocabulary();
  favor::Decoder decoder(trainer.model(), context);
  decoder.Read(favor::Prompt(vocabulary, vocabulary.special().begin, "AYIQRMKT"));
  const favor::Generated sample =
      favor::Generate(decoder, vocabulary, {.sampling = {.temperature = 0}, .tokens = 16});
  std::printf("AYIQRMKT continues as %s; the state takes %d bytes\n",
              vocabulary.Decode(sample.tokens).c_str(), static_cast<int>(decoder.StateBytes()));
  std::remove("repeats.fasta");
  return vocabulary.Decode(sample.tokens).starts_with("AYIQRMKT") ? 0 : 1;
}
