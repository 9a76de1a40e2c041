// Cases of products, sums of columns, rows that have a target, and the loss.
#include <algorithm>
#include <cmath>

#include "kernels/column_sums.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/matmul.h"
#include "kernels/rows.h"
#include "kernels/squared_error.h"
#include "tests/kernels/operation_case.h"

namespace favor {
namespace {

// More shapes are in matmul_test.cc.
void AddMatmul(std::vector<OperationCase>& cases) {
  struct Product {
    int64_t rows, columns, depth;
  };
  for (const Product& one :
       {Product{1, 1, 1}, {3, 19, 33}, {13, 33, 65}, {200, 70, 600}, {1700, 9, 17}}) {
    const int64_t rows = one.rows, columns = one.columns, depth = one.depth;
    for (const bool transposed : {false, true}) {
      for (const char* mode : {"stored", "added", "biased"}) {
        const std::string kind = mode;
        OperationCase c(Named("matmul " + kind + (transposed ? " transposed" : ""), rows, columns) +
                        "x" + std::to_string(depth));
        if (transposed) {
          c.Array("a", {depth, rows}).Array("b", {columns, depth});
        } else {
          c.Array("a", {rows, depth}).Array("b", {depth, columns});
        }
        c.Array("bias", {columns}).Array("c", {rows, columns});
        // A sum in any order. On a GPU the product may be rounded before more is added: of random
        // numbers it is within six deviations, about 10/√depth of the size of the sum.
        const double rounded = kind == "stored" ? 0 : 10 / std::sqrt(static_cast<double>(depth));
        c.Output("c", static_cast<double>(depth + 2), std::min(1.0, rounded));
        c.run = [=](OperationRun& r) {
          const auto side = [&](const char* name) -> ConstView {
            return transposed ? kernels::Transposed(r[name]) : ConstView(r[name]);
          };
          kernels::Matmul({.a = side("a"),
                           .b = side("b"),
                           .c = r["c"],
                           .add = kind == "added",
                           .bias = kind == "biased" ? ConstView(r["bias"]) : ConstView()},
                          r.context);
        };
        c.by_hand = [=](Hand& h) {
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < columns; ++j) {
              Sum sum;
              if (kind == "added") sum += h["c"][At(i * columns + j)];
              if (kind == "biased") sum += h["bias"][At(j)];
              for (int64_t k = 0; k < depth; ++k) {
                sum += h["a"][At(transposed ? k * rows + i : i * depth + k)] *
                       h["b"][At(transposed ? j * depth + k : k * columns + j)];
              }
              h.Put("c", i * columns + j, sum);
            }
          }
        };
        cases.push_back(c);
      }
    }
  }
}

// Of all columns and of those between the first and the last eight; in f32 or, as a step between
// other sums, in the type of the rows.
void AddColumnSums(std::vector<OperationCase>& cases) {
  for (const Size& one :
       {Size{1, 1}, {1, 19}, {256, 8}, {257, 33}, {900, 70}, {5000, 64}, {40, 1032}}) {
    const int64_t rows = one.rows, columns = one.columns;
    for (const bool some : {false, true}) {
      for (const bool narrow : {false, true}) {
        const int64_t before = some ? 8 : 0, all = columns + 2 * before;
        OperationCase c(Named(std::string("column sums") + (some ? " of some columns" : "") +
                                  (narrow ? " in one type" : ""),
                              rows, columns));
        c.Array("rows", {rows, all}).Array("sums", {columns}).Output("sums", 2);
        if (!narrow) c.KeepF32({"sums"});
        c.run = [=](OperationRun& r) {
          kernels::AddColumnSums({.rows = r["rows"].Range(1, before, columns), .sums = r["sums"]},
                                 r.context);
        };
        c.by_hand = [=](Hand& h) {
          for (int64_t i = 0; i < rows * columns; ++i)
            h.results["sums"][At(i % columns)] +=
                h["rows"][At(i / columns * all + before + i % columns)];
        };
        cases.push_back(c);
      }
    }
  }
}

// Every third row, from the last to the first.
std::vector<int64_t> EveryThird(int64_t rows) {
  std::vector<int64_t> places;
  for (int64_t row = rows - 1; row >= 0; row -= 3) places.push_back(row);
  return places;
}

void AddRows(std::vector<OperationCase>& cases) {
  for (const Size& one : {Size{1, 1}, {7, 19}, {33, 64}, {2000, 70}}) {
    const int64_t all = one.rows, columns = one.columns;
    const std::vector<int64_t> places = EveryThird(all);
    const int64_t some = std::ssize(places);
    OperationCase gather(Named("gather", all, columns));
    gather.Array("from", {all, columns}).Array("to", {some, columns}).Output("to", 0);
    gather.integers["places"] = places;
    gather.run = [](OperationRun& r) {
      kernels::GatherRows({.from = r["from"], .places = r.Places("places"), .to = r["to"]},
                          r.context);
    };
    gather.by_hand = [=](Hand& h) {
      for (int64_t i = 0; i < some * columns; ++i)
        h.Put("to", i, {h["from"][At(places[At(i / columns)] * columns + i % columns)], 0});
    };
    cases.push_back(gather);
    OperationCase scatter(Named("scatter", all, columns));
    scatter.Array("from", {some, columns}).Array("to", {all, columns}).Output("to", 0);
    scatter.integers["places"] = places;
    scatter.run = [](OperationRun& r) {
      kernels::ScatterRows({.from = r["from"], .places = r.Places("places"), .to = r["to"]},
                           r.context);
    };
    scatter.by_hand = [=](Hand& h) {
      for (int64_t i = 0; i < some * columns; ++i)
        h.Put("to", places[At(i / columns)] * columns + i % columns, {h["from"][At(i)], 0});
    };
    cases.push_back(scatter);
  }
}

// A row's loss and probabilities, and the largest difference between two logits, which rounding of
// exponents is relative to.
struct SoftmaxRow {
  double loss = 0, range = 0;
  Numbers probabilities;
  bool correct = false;
};

SoftmaxRow Softmax(const Numbers& logits, int64_t row, int64_t classes, int64_t target) {
  const auto first = logits.begin() + row * classes;
  const auto most = std::max_element(first, first + classes);  // the first of the largest
  double sum = 0;
  SoftmaxRow result{.range = *most - *std::min_element(first, first + classes)};
  for (int64_t j = 0; j < classes; ++j) sum += std::exp(first[j]);
  for (int64_t j = 0; j < classes; ++j) result.probabilities.push_back(std::exp(first[j]) / sum);
  result.loss = -std::log(result.probabilities[At(target)]);
  result.correct = most - first == target;
  return result;
}

// Weights of classes: 0.5, 1.25, 2, 2.75 and again.
Numbers WeightsOf(int64_t classes) {
  Numbers weights;
  for (int64_t i = 0; i < classes; ++i) weights.push_back(0.5 + 0.75 * static_cast<double>(i % 4));
  return weights;
}

// Exponentials are accurate to 2.7 roundings, plus one for each unit of their argument.
void AddCrossEntropy(std::vector<OperationCase>& cases, bool weighted) {
  for (const Size& one : {Size{1, 1}, {1, 19}, {5, 8}, {600, 70}, {9, 1000}}) {
    const int64_t rows = one.rows, classes = one.columns;
    const Numbers weights = weighted ? WeightsOf(classes) : Numbers(At(classes), 1);
    for (const double grad_scale : {0.0, 0.4}) {
      OperationCase c(Named(std::string(weighted ? "weighted cross entropy" : "cross entropy") +
                                (grad_scale == 0 ? "" : " backward"),
                            rows, classes));
      c.Array("logits", {rows, classes}).Integers("targets", rows, classes);
      c.Array("weights", {classes}, weights);
      c.arrays["weights"].always_f32 = true;
      c.Output("logits", 6);
      c.loss_roundings = 6;
      c.tally = {.unusable = 2, .targets = 10, .correct = 3, .loss = 1.5, .squared_norm = 4};
      c.run = [=](OperationRun& r) {
        kernels::CrossEntropy({.targets = r.Indices("targets"),
                               .weights = weighted ? r["weights"].Data<float>() : nullptr,
                               .grad_scale = grad_scale,
                               .logits = r["logits"],
                               .tally = r.tally()},
                              r.context);
      };
      c.by_hand = [=, targets = c.integers["targets"]](Hand& h) {
        h.loss_size = h.tally.loss;
        for (int64_t row = 0; row < rows; ++row) {
          const SoftmaxRow s = Softmax(h["logits"], row, classes, targets[At(row)]);
          const double weight = weights[At(targets[At(row)])];
          h.tally.loss += weight * s.loss;
          h.loss_size += weight * (s.loss + 1 + s.range);
          h.tally.correct += s.correct ? 1 : 0;
          ++h.tally.targets;
          for (int64_t j = 0; j < classes && grad_scale != 0; ++j) {
            const double p = s.probabilities[At(j)], hot = j == targets[At(row)] ? 1 : 0;
            h.Put(
                "logits", row * classes + j,
                {weight * grad_scale * (p - hot), weight * grad_scale * (p * (1 + s.range) + hot)});
          }
        }
      };
      cases.push_back(c);
    }
  }
}

void AddCrossEntropyGradient(std::vector<OperationCase>& cases) {
  // The loss as an operation from logits to y, [rows, 1], with one call per row.
  constexpr int64_t kRows = 4, kClasses = 19;
  OperationCase c("cross entropy gradient");
  c.Array("logits", {kRows, kClasses}).Integers("targets", kRows, kClasses);
  c.Array("work", {kRows, kClasses}).Array("grad", {kRows, kClasses}).Array("y", {1});
  c.Array("grad_y", {1}, {0.25}).Gradient("grad", "logits");
  const auto call = [](OperationRun& r, const char* array, double grad_scale) {
    kernels::Copy({.from = r["logits"], .to = r[array]}, r.context);
    kernels::CrossEntropy({.targets = r.Indices("targets"),
                           .grad_scale = grad_scale,
                           .logits = r[array],
                           .tally = r.tally()},
                          r.context);
  };
  c.run = [=](OperationRun& r) { call(r, "grad", 0.25); };
  c.forward = [=](OperationRun& r) {
    const double before = r.tally()->loss;
    call(r, "work", 0);
    *r["y"].Data<double>() = r.tally()->loss - before;
  };
  c.loss_roundings = 6;
  c.by_hand = [=, targets = c.integers["targets"]](Hand& h) {
    for (int64_t row = 0; row < kRows; ++row) {
      const SoftmaxRow s = Softmax(h["logits"], row, kClasses, targets[At(row)]);
      h.tally.loss += s.loss;
      h.loss_size += s.loss + 1 + s.range;
      h.tally.correct += s.correct ? 1 : 0;
      ++h.tally.targets;
    }
  };
  cases.push_back(c);
}

void AddSquaredError(std::vector<OperationCase>& cases) {
  for (const int64_t rows : {1, 19, 3000}) {
    for (const double grad_scale : {0.0, 0.4}) {
      OperationCase c(Named(grad_scale == 0 ? "squared error" : "squared error backward", rows, 1));
      c.Array("y", {rows, 1}).Array("targets", {rows}).Output("y", 2);
      c.arrays["targets"].always_f32 = true;
      c.loss_roundings = 4;
      c.tally = {.unusable = 2, .targets = 10, .correct = 3, .loss = 1.5, .squared_norm = 4};
      c.run = [=](OperationRun& r) {
        kernels::SquaredError({.targets = r["targets"].Data<float>(),
                               .grad_scale = grad_scale,
                               .y = r["y"],
                               .tally = r.tally()},
                              r.context);
      };
      c.by_hand = [=](Hand& h) {
        h.loss_size = h.tally.loss;
        for (int64_t row = 0; row < rows; ++row) {
          const double y = h["y"][At(row)], target = h["targets"][At(row)];
          h.tally.loss += (y - target) * (y - target);
          h.loss_size += (y - target) * (y - target);
          ++h.tally.targets;
          if (grad_scale != 0) {
            h.Put(
                "y", row,
                {grad_scale * 2 * (y - target), grad_scale * 2 * (std::abs(y) + std::abs(target))});
          }
        }
      };
      cases.push_back(c);
    }
  }
}

}  // namespace

std::vector<OperationCase> HeadCases() {
  std::vector<OperationCase> cases;
  AddMatmul(cases);
  AddColumnSums(cases);
  AddRows(cases);
  AddCrossEntropy(cases, /*weighted=*/false);
  AddCrossEntropy(cases, /*weighted=*/true);
  AddCrossEntropyGradient(cases);
  AddSquaredError(cases);
  return cases;
}

}  // namespace favor
