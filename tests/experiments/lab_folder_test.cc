#include "experiments/lab_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "favor/error.h"
#include "tests/temp_dir.h"

namespace favor::experiments {
namespace {

namespace fs = std::filesystem;

LabSettings SmallMemory(uint64_t seed = 3) {
  return SettingsOf(FindExperiment("memory"), Scale::kQuick, 2,
                    {{"pairs", {1, 4}}, {"features", {3}}, {"feature-dims", {2}}, {"dim", {5}}},
                    seed);
}
LabSettings SmallRegularized() {
  return SettingsOf(FindExperiment("regularized"), Scale::kQuick, 2, {}, 3);
}

TEST(LabSettings, RepeatThemselvesAsACommand) {
  EXPECT_EQ(SmallMemory().Command(),
            "favor lab memory --quick --draws 2 --seed 3 --dim 5 --feature-dims 2 --features 3 "
            "--pairs 1,4");
  const Experiment& tails = FindExperiment("tails");
  const LabSettings full = SettingsOf(tails, Scale::kFull, 0, {}, 0);
  EXPECT_EQ(full.draws, tails.draws.full);
  EXPECT_EQ(full.Command(), "favor lab tails --draws " + std::to_string(full.draws) + " --seed 0");
  EXPECT_EQ(SettingsOf(tails, Scale::kPaper, 0, {}, 0).draws, tails.draws.paper);
}

// A point is part of the command and of what a result is found by: sweeps are another result.
TEST(LabSettings, KnowThePoint) {
  const Experiment& self = FindExperiment("separation-self");
  const LabSettings sweeps = SettingsOf(self, Scale::kQuick, 20, {}, 3);
  LabSettings point = sweeps;
  point.point = {.values = {{"n", 201}, {"a1", 1.5}}, .allow = true};
  EXPECT_EQ(point.Command(),
            "favor lab separation-self --quick --draws 20 --seed 3 --a1 1.5 --n 201 --allow");
  EXPECT_EQ(point.ToJson()["point"]["values"]["n"], 201);
  EXPECT_EQ(point.ToJson()["point"]["allow"], true);
  const TempDir dir;
  const LabFolder folder(dir / "lab");
  const LabResult result = folder.Run(point, Context({.seed = 3}), true);
  EXPECT_TRUE(result.results.contains("measured"));
  EXPECT_FALSE(result.results.contains("sweeps"));
  EXPECT_TRUE(folder.Find(point).has_value());
  EXPECT_FALSE(folder.Find(sweeps).has_value());
  LabSettings other = point;
  other.point.values["n"] = 221;
  EXPECT_FALSE(folder.Find(other).has_value());
}

TEST(LabFolder, KeepsWhatWasFinishedAndReportsAllOfIt) {
  const TempDir dir;
  const Context context({.seed = 3});
  const LabFolder folder(dir / "lab");
  EXPECT_FALSE(folder.Find(SmallMemory()).has_value());
  const LabResult memory = folder.Run(SmallMemory(), context, true);
  EXPECT_TRUE(folder.Find(SmallMemory()).has_value());
  EXPECT_FALSE(folder.Find(SmallMemory(4)).has_value());  // another seed
  EXPECT_FALSE(folder.Find(SmallRegularized()).has_value());
  EXPECT_EQ(Json::parse(ReadText(dir / "lab/memory/results.json")), memory.results);
  EXPECT_EQ(memory.results["seed"], 3);
  EXPECT_EQ(memory.results["scale"], "quick");

  const LabResult regularized = folder.Run(SmallRegularized(), context, true);
  EXPECT_TRUE(folder.Find(SmallMemory()).has_value());
  const std::string report = ReadText(folder.ReportPath());
  for (const char* part :
       {"<section id=\"memory\">", "<section id=\"regularized\">", "<a href=\"#regularized\">",
        "--feature-dims 2", "Theorem 1, as printed (ICLR 2021)",
        "<td class=\"no\"><b>does not hold</b></td>", "<td>quick</td>"})
    EXPECT_NE(report.find(part), std::string::npos) << part;
  EXPECT_LT(report.find("id=\"memory\""), report.find("id=\"regularized\""));

  // Claims and tables as CSV, plots as SVG.
  ASSERT_EQ(regularized.tables[0].title, "SMREG/SM");
  EXPECT_EQ(ReadText(dir / "lab/regularized/smreg_sm.csv"), regularized.tables[0].ToCsv());
  const std::string claims = ReadText(dir / "lab/regularized/claims.csv");
  EXPECT_TRUE(claims.starts_with("claim,what it says,measured,verdict\nthe series,")) << claims;
  EXPECT_EQ(std::ranges::count(claims, '\n'),
            1 + std::ssize(regularized.results["claims"]));  // a line each, and the heading
  EXPECT_TRUE(ReadText(dir / "lab/regularized/distance_of_the_regularized_kernel_from_softmax.svg")
                  .starts_with("<svg"));
}

// What another run left, and the new one does not have, goes; what favor did not write stays.
TEST(LabFolder, ReplacesTheFilesOfTheLastRun) {
  const TempDir dir;
  const Context context({.seed = 3});
  const LabFolder folder(dir / "lab");
  folder.Run(SmallMemory(), context, true);
  const std::string old = dir / "lab/memory/recall_of_4_pairs.svg",
                    mine = dir / "lab/memory/my.svg";
  EXPECT_TRUE(fs::exists(old));
  WriteText(mine, "");
  folder.Run(
      SettingsOf(FindExperiment("memory"), Scale::kQuick, 2,
                 {{"pairs", {2}}, {"features", {3}}, {"feature-dims", {2}}, {"dim", {5}}}, 3),
      context, true);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(dir / "lab/memory/recall_of_2_pairs.svg"));
  EXPECT_TRUE(fs::exists(mine));
}

// A run that was interrupted, or a file that is not one of favor's, is not a result.
TEST(LabFolder, DoesNotTrustWhatIsNotAResult) {
  const TempDir dir;
  const LabFolder folder(dir / "lab");
  fs::create_directories(dir / "lab/memory");
  fs::create_directories(dir / "lab/regularized");
  WriteText(dir / "lab/memory/section.html", "<section>half of it");
  EXPECT_FALSE(folder.Find(SmallMemory()).has_value());
  const std::string claims = "{\"experiment\": \"memory\", \"scale\": \"quick\", \"claims\": ";
  for (const std::string& text :
       {claims + "[5]}", claims + "[{}]}", claims + "[{\"verdict\": 7}]}", claims + "{}}",
        std::string("{\"experiment\": \"memory\", \"scale\": 3, \"claims\": []}")}) {
    WriteText(dir / "lab/memory/results.json", text);
    EXPECT_FALSE(folder.Find(SmallMemory()).has_value()) << text;
  }
  for (const char* text :
       {"", "{", "[1]", "{\"experiment\": \"memory\"}", "{\"experiment\": 7, \"claims\": []}",
        "{\"experiment\": \"memory\", \"claims\": 5}"}) {
    WriteText(dir / "lab/memory/results.json", text);
    EXPECT_FALSE(folder.Find(SmallMemory()).has_value()) << text;
  }
  fs::remove(dir / "lab/memory/results.json");
  fs::create_directories(dir / "lab/memory/results.json");  // a folder where a file should be
  EXPECT_FALSE(folder.Find(SmallMemory()).has_value());
  folder.Run(SmallRegularized(), Context({.seed = 3}), true);
  const std::string report = ReadText(folder.ReportPath());
  EXPECT_EQ(report.find("half of it"), std::string::npos);
  EXPECT_NE(report.find("id=\"regularized\""), std::string::npos);
  WriteText(dir / "lab/tails", "");
  EXPECT_THROW(folder.Prepare(FindExperiment("tails")), Error);
  WriteText(dir / "file", "");
  EXPECT_THROW(LabFolder(dir / "file/x"), Error);
}

}  // namespace
}  // namespace favor::experiments
