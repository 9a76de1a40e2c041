// Every command of the README and the docs: commands of code blocks are run in the order of their
// page, made small; of commands inside sentences, every option must exist.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>

#include "favor/npy.h"
#include "favor/random.h"
#include "favor/tensor.h"
#include "tests/cli/tool_fixture.h"
#include "tests/gzip.h"
#include "tests/npy_file.h"
#include "tests/png_file.h"

namespace favor {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Pages whose commands are run. Decisions are left out: they report what was measured then.
std::vector<fs::path> Pages() {
  std::vector<fs::path> pages = {fs::path(FAVOR_SOURCE_DIR) / "README.md"};
  for (const auto& entry : fs::directory_iterator(fs::path(FAVOR_SOURCE_DIR) / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  std::sort(pages.begin(), pages.end());
  return pages;
}

// Splits at spaces outside of quotes; the quotes are kept.
Words Split(const std::string& line) {
  Words words(1);
  char quote = 0;
  for (const char c : line) {
    if (quote == 0 && c == ' ') {
      if (!words.back().empty()) words.emplace_back();
      continue;
    }
    if (c == '"' || c == '\'') quote = quote == 0 ? c : quote == c ? 0 : quote;
    words.back() += c;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string Join(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

struct Commands {
  std::vector<std::string> blocks;     // lines of code blocks that call favor
  std::vector<std::string> sentences;  // `favor …` in running text
};

Commands CommandsOf(const fs::path& page) {
  Commands commands;
  std::string text = ReadText(page.string()), running;
  bool inside = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      continue;
    }
    if (!inside) {
      running += line + " ";
      continue;
    }
    const size_t comment = line.find("  #");
    if (comment != std::string::npos) line.resize(comment);
    if (std::regex_search(line, std::regex("(^|\\| )favor [a-z]"))) commands.blocks.push_back(line);
  }
  const std::regex code("`(favor [^`]*)`");
  for (auto at = std::sregex_iterator(running.begin(), running.end(), code);
       at != std::sregex_iterator(); ++at)
    commands.sentences.push_back((*at)[1]);
  return commands;
}

bool Is(const Words& words, const std::string& command, const std::string& part = "") {
  const auto favor = std::find(words.begin(), words.end(), "favor");
  return words.end() - favor > 1 && favor[1] == command &&
         (part.empty() || (words.end() - favor > 2 && favor[2] == part));
}

// Sets an option; appends it if it is not there.
void Set(const std::string& option, const std::string& value, Words& words) {
  const auto found = std::find(words.begin(), words.end(), option);
  if (found != words.end()) {
    found[1] = value;
    return;
  }
  const auto redirect = std::find(words.begin(), words.end(), ">");
  words.insert(redirect, {option, value});
}

void MakeModelSmall(Words& words) {
  for (const auto& [option, value] : std::map<std::string, std::string>{{"--width", "16"},
                                                                        {"--heads", "2"},
                                                                        {"--layers", "1"},
                                                                        {"--ff", "16"},
                                                                        {"--features", "8"}})
    Set(option, value, words);
}

// Makes a command smaller, so that it runs faster.
void MakeSmall(Words& words) {
  for (std::string& word : words) {
    if (word.starts_with("/usr/share/doc/mmseqs2")) word = "proteins.fasta.gz";
  }
  const bool resumed = std::find(words.begin(), words.end(), "--resume") != words.end();
  const bool pictures = Join(words).find("pictures") != std::string::npos;
  if (Is(words, "train") && !resumed) {
    MakeModelSmall(words);
    for (const auto& [option, value] : std::map<std::string, std::string>{
             {"--steps", "2"}, {"--batch", "2"}, {"--eval-batches", "1"}, {"--warmup", "1"}})
      Set(option, value, words);
    if (!pictures) Set("--length", "16", words);
  }
  if (Is(words, "bench")) {
    Set("--rounds", "1", words);
    if (!Is(words, "bench", "generate")) Set("--lengths", "16,32", words);
    if (Is(words, "bench", "generate")) Set("--prefixes", "8,16", words);
    if (!Is(words, "bench", "attention")) MakeModelSmall(words);
  }
  const bool lab = Is(words, "lab") && words.back() != "lab";  // not the list
  if (lab && std::find(words.begin(), words.end(), "--quick") == words.end())
    words.insert(std::find(words.begin(), words.end(), ">"), "--quick");
  if (Is(words, "tokenizer", "train")) Set("--vocab", "290", words);
  if (Is(words, "generate") && std::find(words.begin(), words.end(), "--png") == words.end() &&
      std::find(words.begin(), words.end(), "--tokens") == words.end())
    Set("--tokens", "8", words);
}

class Docs : public ToolFixture {
 protected:
  Docs() {
    std::string text, proteins, pixels;
    for (int i = 0; i < 400; ++i)
      text += "In the beginning was line " + std::to_string(i * 37 % 100) + ".\n";
    for (uint64_t i = 0; i < 200; ++i) {
      proteins += ">p" + std::to_string(i) + "\n";
      for (uint64_t j = 0; j < 20; ++j)
        proteins += "ACDEFGHIKLMNPQRSTVWY"[RandomStream(i, "protein").Bits(j) % 20];
      proteins += "\n";
    }
    for (const char* name : {"book.txt", "long.txt"}) WriteText(dir_ / name, text);
    for (const char* name : {"proteins.fasta.gz", "query.fasta.gz", "mine.fasta", "other.fasta"})
      WriteText(dir_ / name, Gzip(proteins));
    std::string labels;
    for (int i = 0; i < 200; ++i)
      labels += "p" + std::to_string(i) + (i % 3 == 0 ? "\tanimal\n" : "\tplant\n");
    for (const char* name : {"labels.tsv", "kingdoms.tsv", "few.tsv", "other.tsv"})
      WriteText(dir_ / name, labels);
    std::string clusters;
    for (int i = 0; i < 200; ++i)
      clusters += "p" + std::to_string(i) + "\tp" + std::to_string(i) + "\n";
    WriteText(dir_ / "clu_cluster.tsv", clusters);
    for (const char* name : {"one.fasta", "wild_type.fasta", "mutants.fasta"})
      WriteText(dir_ / name, ">x\nMACDKFGHLIMNA\n");
    fs::create_directory(dir_ / "pictures");
    for (int i = 0; i < 80; ++i) {
      std::vector<uint8_t> rows;
      for (int j = 0; j < 16; ++j) rows.push_back(static_cast<uint8_t>(i * j * 7 % 251));
      pixels.append(rows.begin(), rows.end());
      WriteText(dir_ / "pictures/" + std::to_string(i) + ".png", Png(4, 4, rows));
    }
    WriteText(dir_ / "pictures.npy", NpyFile("|u1", "(80, 4, 4)", pixels));
    for (const char* name : {"q.npy", "k.npy", "v.npy", "g.npy", "x.npy"}) {
      Tensor array({2, 12, 8}, DataType::kF64);
      RandomStream(1, name).FillNormal(0, {array.Data<double>(), 2 * 12 * 8});
      WriteNpy(dir_ / name, array);
    }
  }

  ToolResult Run(const std::string& command) const {
    const std::string path =
        "PATH=" + fs::path(FAVOR_TOOL).parent_path().string() + ":/usr/bin:/bin";
    return RunToolUnder({"env", "-C", dir_ / "", path, "sh", "-c", command}, {});
  }
  // Trains a run that a page takes for granted.
  void Train(const std::string& data, const std::string& out) const {
    if (fs::exists(dir_ / out + "/config.json")) return;
    Words words = {"favor",  "train",       "--data", data, "--positions",
                   "rotary", "--no-report", "--out",  out};
    MakeSmall(words);
    const ToolResult result = Run(Join(words));
    ASSERT_EQ(result.status, 0) << result.err;
  }
};

TEST_F(Docs, CommandsOfCodeBlocksRun) {
  int count = 0;
  for (const fs::path& page : Pages()) {
    SCOPED_TRACE(page.filename().string());
    const Commands commands = CommandsOf(page);
    if (commands.blocks.empty()) continue;
    for (const char* run : {"run", "other", "proteins", "book"}) fs::remove_all(dir_ / run);
    if (page.filename() == "generation.md") {
      // On this page the folder "pictures" is a run.
      fs::rename(dir_ / "pictures", dir_ / "png");
      Train("book.txt", "run");
      Train("proteins.fasta.gz", "proteins");
      Train("pictures.npy", "pictures");
    }
    Train("proteins.fasta.gz", "other");
    Words attend;  // the last one, for "favor attend …"
    for (const std::string& line : commands.blocks) {
      SCOPED_TRACE(line);
      Words words = Split(line);
      const auto dots = std::find(words.begin(), words.end(), "…");
      if (dots != words.end()) {
        ASSERT_FALSE(attend.empty());
        const auto place = words.erase(dots);
        words.insert(place, attend.begin() + 2, attend.end());
      } else if (Is(words, "attend")) {
        attend = words;
      }
      MakeSmall(words);
      const auto out = std::find(words.begin(), words.end(), "--out");
      if (Is(words, "train") && line.find("--resume") == std::string::npos) {
        ASSERT_NE(out, words.end());
        fs::remove_all(dir_ / out[1]);
      }
      const ToolResult result = Run(Join(words));
      EXPECT_EQ(result.status, 0) << Join(words) << "\n" << result.err;
      ++count;
    }
    if (page.filename() == "generation.md") {
      fs::remove_all(dir_ / "pictures");
      fs::rename(dir_ / "png", dir_ / "pictures");
    }
  }
  EXPECT_GT(count, 30);
}

TEST_F(Docs, OptionsOfSentencesExist) {
  std::map<std::string, std::string> help;
  int count = 0;
  for (const fs::path& page : Pages()) {
    for (const std::string& sentence : CommandsOf(page).sentences) {
      SCOPED_TRACE(page.filename().string() + ": " + sentence);
      const Words words = Split(sentence);
      if (words.size() < 2 || words[1] == "checkpoint") continue;  // the format's name
      Words path = {"help", words[1]};
      const bool part = words.size() > 2 && (words[1] == "bench" || words[1] == "inspect" ||
                                             words[1] == "tokenizer" || words[1] == "state");
      if (part && !words[2].starts_with("--")) path.push_back(words[2]);
      std::string& shown = help[Join(path)];
      if (shown.empty()) {
        const ToolResult result = RunTool(path);
        ASSERT_EQ(result.status, 0) << result.err;
        shown = result.out;
      }
      for (const std::string& word : words) {
        if (!word.starts_with("--")) continue;
        EXPECT_TRUE(std::regex_search(shown, std::regex(word + "\\b"))) << word;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 30);
}

}  // namespace
}  // namespace favor
