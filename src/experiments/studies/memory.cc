// How many pairs of a key and a value a state holds: recall against the bytes of the state, for
// exact attention and several maps, without training.
#include <fmt/format.h>

#include <algorithm>

#include "core/progress.h"
#include "experiments/experiment.h"
#include "experiments/recall.h"

namespace favor::experiments {
namespace {

constexpr const char* kMaps[] = {"positive", "relu", "elu"};
constexpr double kSharpnesses[] = {0.5, 1, 2, 4, 8, 16};
constexpr double kHeld = 0.9;  // accuracy from which pairs count as held

struct Row {
  Memory memory;
  int color = 0;                    // of its kind in plots
  std::vector<RecallPoint> points;  // one for each number of pairs

  std::string Kind() const { return memory.IsExact() ? "exact" : memory.map; }
  // The largest number of pairs up to which every accuracy is high enough; 0: none.
  int64_t Held() const {
    const auto first_lost = std::ranges::find_if(
        points, [](const RecallPoint& point) { return point.accuracy < kHeld; });
    return first_lost == points.begin() ? 0 : std::prev(first_lost)->pairs;
  }
};

class MemoryStudy {
 public:
  explicit MemoryStudy(ExperimentRun& run)
      : run_(run),
        dim_(run.options.at("dim")[0]),
        recall_{.dim = dim_,
                .pairs = run.options.at("pairs"),
                .sharpnesses = {std::begin(kSharpnesses), std::end(kSharpnesses)},
                .draws = run.draws} {}

  void Run() {
    Measure();
    run_.report.AddText(fmt::format(
        "A state has read P pairs of a key and a value; then each key is asked again, and the "
        "answer is the row of a codebook with the largest dot product with the output. Keys are "
        "random directions of dim {}, values are random rows of {} random directions of dim {}. "
        "Queries and keys have norm β, and scores are β² k·k'. A trained model would find a good "
        "β: here it is the one of the grid with the most right answers on {} draws of keys, "
        "values and ω; accuracies are means of {} other draws. taylor reads queries and keys that "
        "are projected to fewer dims by a random matrix, as --feature-dim does with a learned one.",
        dim_, kCodebookRows, dim_, run_.draws, run_.draws));
    run_.report.AddText(
        "What limits a state: with positive, the variance of the estimate, which falls with more "
        "features. With relu, the kernel itself: for keys at right angles it is 1/π of what it is "
        "for equal keys, so that many pairs together drown the one that is asked for, however many "
        "features there are; elu approaches relu as β grows. With taylor, the dims that keys are "
        "projected to: its kernel is computed exactly and grows with the square of the score.");
    run_.report.AddText(
        "What this does not show: a model learns keys that its features tell apart, and so may "
        "hold more pairs than random keys let it; it has several heads and layers, each with a "
        "state of its own. Forgetting is left out: it drops far pairs on purpose, to make room for "
        "near ones.");
    AddAccuracies();
    AddSmallest();
    AddSharpnesses();
    AddHeldPlot();
    for (size_t place = 0; place < recall_.pairs.size(); ++place) AddAccuracyPlot(place);
  }

 private:
  void Measure() {
    int color = 0;
    rows_.push_back({.memory = {}, .color = color++, .points = {}});
    for (const char* map : kMaps) {
      for (const int64_t features : run_.options.at("features"))
        rows_.push_back(
            {.memory = {.map = map, .features = features}, .color = color, .points = {}});
      ++color;
    }
    for (const int64_t dims : run_.options.at("feature-dims"))
      rows_.push_back(
          {.memory = {.map = "taylor", .feature_dim = dims}, .color = color, .points = {}});
    Progress progress("memory", static_cast<int64_t>(rows_.size()), run_.quiet);
    int64_t done = 0;
    for (Row& row : rows_) {
      const Memory& memory = row.memory;
      row.points = MeasureRecall(memory, recall_, run_.context);
      for (const RecallPoint& point : row.points) {
        const MemoryBytes bytes = Bytes(row, point.pairs);
        run_.results["recall"].push_back(
            {{"attention", row.Kind()},
             {"features", memory.IsExact() ? Json() : Json(Width(memory))},
             {"feature_dim", memory.feature_dim > 0 ? Json(memory.feature_dim) : Json()},
             {"pairs", point.pairs},
             {"sharpness", point.sharpness},
             {"accuracy", point.accuracy},
             {"standard_error", point.standard_error},
             {"state_bytes", bytes.state},
             {"f32_bytes", bytes.single}});
      }
      progress.Update(++done, row.Kind());
    }
  }

  int64_t Width(const Memory& memory) const { return memory.Plan(dim_, 0, 0).width(); }
  MemoryBytes Bytes(const Row& row, int64_t pairs) const {
    return BytesOf(row.memory, dim_, pairs);
  }

  // A table with a row for each memory and, after the first columns, one for each number of pairs.
  reports::Table PairsTable(std::string title, std::string caption,
                            std::vector<std::string> first) const {
    reports::Table table{.title = std::move(title),
                         .caption = std::move(caption),
                         .columns = {"attention", "features"},
                         .rows = {}};
    table.columns.insert(table.columns.end(), first.begin(), first.end());
    for (const int64_t pairs : recall_.pairs) table.columns.push_back(fmt::format("P = {}", pairs));
    for (const Row& row : rows_) {
      const Memory& memory = row.memory;
      table.rows.push_back({memory.feature_dim > 0
                                ? fmt::format("{}, {} dims", row.Kind(), memory.feature_dim)
                                : row.Kind(),
                            memory.IsExact() ? "—" : std::to_string(Width(memory))});
    }
    return table;
  }

  void AddAccuracies() {
    reports::Table table = PairsTable(
        "Share of pairs that are recalled",
        fmt::format(
            "In percent, with the standard error of the mean over {} draws; chance is {:.1f}. "
            "State bytes are those of one head as favor keeps it: sums in f64 and a maximum per "
            "feature; f32 bytes count S and z alone with 4 bytes per number, as other "
            "implementations may keep them. Exact attention keeps f32 keys and values and grows "
            "with every pair. Held: the most pairs, of those tried, up to which at least "
            "{:.0f} % are recalled.",
            run_.draws, 100.0 / static_cast<double>(kCodebookRows), 100 * kHeld),
        {"state bytes", "f32 bytes", "held"});
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      const MemoryBytes bytes = Bytes(row, 1);
      const char* unit = row.memory.IsExact() ? " per pair" : "";
      std::vector<std::string>& cells = table.rows[i];
      cells.push_back(fmt::format("{}{}", bytes.state, unit));
      cells.push_back(fmt::format("{}{}", bytes.single, unit));
      cells.push_back(HeldCell(row));
      for (const RecallPoint& point : row.points)
        cells.push_back(
            fmt::format("{:.1f} ± {:.1f}", 100 * point.accuracy, 100 * point.standard_error));
    }
    run_.report.AddTable(table);
  }

  std::string HeldCell(const Row& row) const {
    const int64_t held = row.Held();
    if (held == 0) return fmt::format("< {}", recall_.pairs.front());
    return held == recall_.pairs.back() ? fmt::format("≥ {}", held) : std::to_string(held);
  }

  void AddSmallest() {
    reports::Table table{
        .title = "Bytes of the smallest state that holds P pairs",
        .caption = fmt::format("Holds: at least {:.0f} % of P pairs, and of every smaller number "
                               "that was tried, are recalled; features in brackets; — : none of "
                               "the states that were tried.",
                               100 * kHeld),
        .columns = {"attention"},
        .rows = {}};
    for (const int64_t pairs : recall_.pairs) table.columns.push_back(fmt::format("P = {}", pairs));
    for (auto row = rows_.begin(); row != rows_.end();) {
      const auto next = std::find_if(row, rows_.end(),
                                     [&](const Row& other) { return other.Kind() != row->Kind(); });
      std::vector<std::string>& cells = table.rows.emplace_back(1, row->Kind());
      for (const int64_t pairs : recall_.pairs) {
        // Rows of a kind are in order of their sizes.
        const auto smallest =
            std::find_if(row, next, [&](const Row& state) { return state.Held() >= pairs; });
        if (smallest == next) {
          cells.emplace_back("—");
          continue;
        }
        cells.push_back(std::to_string(Bytes(*smallest, pairs).state));
        if (!row->memory.IsExact()) cells.back() += fmt::format(" ({})", Width(smallest->memory));
      }
      row = next;
    }
    run_.report.AddTable(table);
  }

  void AddSharpnesses() {
    std::string grid;
    for (const double sharpness : kSharpnesses) grid += fmt::format(" {}", sharpness);
    reports::Table table = PairsTable(
        "Sharpness β",
        fmt::format(
            "The β of{} with the most right answers, the middle one if several are equal. The "
            "features of relu are proportional to β: it hardly matters there.",
            grid),
        {});
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (const RecallPoint& point : rows_[i].points)
        table.rows[i].push_back(fmt::format("{}", point.sharpness));
    }
    run_.report.AddTable(table);
  }

  // Adds a point to the line of the row's kind, which begins with its first row.
  static void AddPoint(const Row& row, std::pair<double, double> point, reports::Plot& plot) {
    if (plot.series.empty() || plot.series.back().name != row.Kind())
      plot.series.push_back({.name = row.Kind(), .points = {}, .color = row.color});
    plot.series.back().points.push_back(point);
  }

  // Marks every point of a line too.
  static void AddMarkers(reports::Plot& plot) {
    const std::vector<reports::Series> lines = plot.series;
    for (reports::Series marks : lines) {
      marks.markers = true;
      plot.series.push_back(std::move(marks));
    }
  }

  void AddHeldPlot() {
    reports::Plot plot{
        .title = "Pairs held against the bytes of the state",
        .caption = fmt::format("The most pairs, of those tried, of which at least {:.0f} % are "
                               "recalled. Below the line of exact attention a state needs more "
                               "bytes than the keys and values that it stands for.",
                               100 * kHeld),
        .x_label = "bytes of the state",
        .y_label = "pairs held",
        .log_x = true,
        .log_y = true,
        .series = {}};
    for (const Row& row : rows_) {
      const int64_t held = row.Held();
      if (row.memory.IsExact()) {
        for (const RecallPoint& point : row.points)
          if (point.pairs <= held) AddPoint(row, At(row, point.pairs, point.pairs), plot);
      } else if (held > 0) {
        AddPoint(row, At(row, held, held), plot);
      }
    }
    if (plot.series.empty()) return;  // nothing is held
    AddMarkers(plot);
    run_.report.AddPlot(plot);
  }

  void AddAccuracyPlot(size_t place) {
    const int64_t pairs = recall_.pairs[place];
    reports::Plot plot{
        .title = fmt::format("Recall of {} pairs", pairs),
        .caption =
            "The vertical line is exact attention: right of it, a state is larger than all "
            "keys and values.",
        .x_label = "bytes of the state",
        .y_label = "share recalled",
        .log_x = true,
        .from_zero = true,
        .series = {}};
    for (const Row& row : rows_) {
      if (row.memory.IsExact()) AddPoint(row, At(row, pairs, 0), plot);
      AddPoint(row, At(row, pairs, row.points[place].accuracy), plot);
    }
    AddMarkers(plot);
    run_.report.AddPlot(plot);
  }

  template <class Number>
  std::pair<double, double> At(const Row& row, int64_t pairs, Number height) const {
    return {static_cast<double>(Bytes(row, pairs).state), static_cast<double>(height)};
  }

  ExperimentRun& run_;
  int64_t dim_;
  RecallOptions recall_;
  std::vector<Row> rows_;
};

}  // namespace

Experiment MemoryExperiment() {
  return {.name = "memory",
          .summary = "how many pairs a state holds: recall against its bytes, without training",
          .subject = "Beyond the paper",
          .draws = {.quick = 2, .full = 16, .paper = 64},
          .seconds = {.quick = 3, .full = 25, .paper = 100},
          .run = [](ExperimentRun& run) { MemoryStudy(run).Run(); },
          .options = {{.name = "pairs",
                       .help = "Numbers of pairs",
                       .least = 1,
                       .most = 16384,
                       .standard = {8, 16, 32, 64, 128, 256, 512}},
                      {.name = "features",
                       .help = "Numbers of features of maps with ω",
                       .least = 1,
                       .most = 16384,
                       .standard = {16, 32, 64, 128, 256, 512}},
                      {.name = "feature-dims",
                       .help = "Dims that keys are projected to for taylor",
                       .least = 1,
                       .most = 128,
                       .standard = {8, 16, 32}},
                      {.name = "dim",
                       .help = "Dim of keys and values",
                       .least = 1,
                       .most = 1024,
                       .standard = {64},
                       .list = false}}};
}

}  // namespace favor::experiments
