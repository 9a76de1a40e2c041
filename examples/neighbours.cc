// Learns two made-up families of proteins, scores a sequence of each kind and finds, by their
// embeddings, which of the known ones a new one resembles.
#include <favor/favor.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

// Members of a family repeat its letters, each from another place on.
void WriteFamilies(const std::string& path, const std::vector<std::string>& families) {
  std::ofstream fasta(path);
  for (size_t i = 0; i < 160; ++i) {
    const std::string& letters = families[i % families.size()];
    fasta << ">family" << i % families.size() << "-" << i << "\n";
    for (size_t j = 0; j < 20 + i / 8; ++j) fasta << letters[(i + j) % letters.size()];
    fasta << "\n";
  }
}

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0, of_a = 0, of_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * double{b[i]};
    of_a += double{a[i]} * double{a[i]};
    of_b += double{b[i]} * double{b[i]};
  }
  return product / std::sqrt(of_a * of_b);
}

}  // namespace

int main() {
  WriteFamilies("families.fasta", {"MKTAYIQR", "GDSLEPWV"});
  favor::RunConfig run{.data = "families.fasta"};
  run.model.width = 32;
  run.model.ff = 64;
  run.model.positions = favor::Positions::kRotary;
  run.model.features.map = "relu";
  run.training = {
      .steps = 60, .batch = 8, .length = 32, .learning_rate = 3e-3, .warmup = 10, .dropout = 0};
  const favor::Context context;
  favor::Trainer trainer(run, context);
  while (trainer.step() < run.training.steps) trainer.Step();
  trainer.SaveModel("families.safetensors");

  const favor::TrainedModel trained = favor::LoadTrained("families.safetensors");
  std::ofstream("new.fasta") << ">new\nYIQRMKTAYIQRMKTAYIQR\n>shuffled\nQYRIKTMAIQYRTAMKIQYR\n";

  // How likely they are: nats per residue.
  std::vector<double> losses;
  favor::Likelihoods(trained, *favor::OpenRecordsFor(trained, "new.fasta"), {}, context,
                     [&](const favor::Likelihood& likelihood) {
                       losses.push_back(-likelihood.sum / double(likelihood.targets));
                       std::printf("%s: %.2f nats per residue\n", likelihood.record.name.c_str(),
                                   losses.back());
                     });

  // The known sequence whose embedding points most nearly the same way.
  const auto embed = [&](const std::string& file) {
    std::vector<std::pair<std::string, std::vector<float>>> all;
    favor::Embed(trained, *favor::OpenRecordsFor(trained, file), {}, context,
                 [&](const favor::Embedding& embedding) {
                   const float* values = embedding.rows.Data<float>();
                   all.emplace_back(embedding.record.name,
                                    std::vector<float>(values, values + run.model.width));
                 });
    return all;
  };
  const auto known = embed("families.fasta"), unknown = embed("new.fasta");
  std::string nearest;
  double best = -1;
  for (const auto& [name, vector] : known) {
    const double cosine = Cosine(vector, unknown.front().second);
    if (cosine > best) {
      best = cosine;
      nearest = name;
    }
  }
  std::printf("new is nearest to %s (cosine %.3f)\n", nearest.c_str(), best);
  for (const char* file : {"families.fasta", "families.safetensors", "new.fasta"})
    std::remove(file);
  return nearest.starts_with("family0") && losses[0] + 1 < losses[1] ? 0 : 1;
}
