// Cases of what a training step does to all parameters: gradients set to 0, their norm, AdamW.
#include <algorithm>
#include <limits>

#include "kernels/adamw.h"
#include "kernels/copy.h"
#include "kernels/gradient_norm.h"
#include "tests/kernels/operation_case.h"

namespace favor {
namespace {

// Parameters of these sizes, each at a multiple of 16 elements; what lies between is 0.
struct Slab {
  explicit Slab(const std::vector<int64_t>& counts) {
    for (const int64_t count : counts) {
      segments.push_back({.begin = size, .count = count, .decays = segments.size() % 2 == 0});
      size += (count + 15) / 16 * 16;
    }
  }
  // `values` where a parameter is, 0 between them.
  Numbers Fill(OperationCase& c, const std::string& array) const {
    c.Array(array, {size});
    Numbers values(At(size), 0.0);
    for (const kernels::Segment& segment : segments)
      std::copy_n(c.arrays[array].values.begin() + segment.begin, segment.count,
                  values.begin() + segment.begin);
    return values;
  }
  void Array(OperationCase& c, const std::string& array) const {
    c.Array(array, {size}, Fill(c, array));
  }

  std::vector<kernels::Segment> segments;
  int64_t size = 0;
};

// Tails of vectors, one element, more than a piece (16384).
const std::vector<std::vector<int64_t>> kSlabs = {{1}, {3, 8, 17}, {16384, 5, 40003, 1}};

void AddGradientNorm(std::vector<OperationCase>& cases) {
  for (const auto& counts : kSlabs) {
    const Slab slab(counts);
    OperationCase c("gradient norm " + std::to_string(slab.size));
    slab.Array(c, "gradients");
    c.KeepF32({"gradients"});
    c.segments = slab.segments;
    c.tally.squared_norm = 0.5;
    c.run = [](OperationRun& r) {
      kernels::AddGradientNorm(
          {.gradients = r["gradients"], .segments = r.segments(), .tally = r.tally()}, r.context);
    };
    c.by_hand = [](Hand& h) {
      for (const double g : h["gradients"]) h.tally.squared_norm += g * g;
    };
    cases.push_back(c);
  }
}

// Clipped, not clipped, and refused for each reason.
void AddAdamW(std::vector<OperationCase>& cases) {
  struct Kind {
    const char* name;
    double clip;
    TallyEntry tally;
    bool refused = false;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& counts : kSlabs) {
    const Slab slab(counts);
    for (const Kind& kind :
         {Kind{"unclipped", 0, {.loss = 2, .squared_norm = 9}},
          Kind{"below the clip", 3.5, {.loss = 2, .squared_norm = 9}},
          Kind{"clipped", 1.5, {.loss = 2, .squared_norm = 9}},
          Kind{"infinite loss", 1.5, {.loss = infinity, .squared_norm = 9}, true},
          Kind{"infinite norm", 1.5, {.loss = 2, .squared_norm = infinity}, true},
          Kind{"unusable", 1.5, {.unusable = 1, .squared_norm = 9}, true}}) {
      OperationCase c("AdamW " + std::string(kind.name) + " " + std::to_string(slab.size));
      for (const char* name : {"gradients", "values", "first", "second"}) slab.Array(c, name);
      for (double& v : c.arrays["second"].values) v = std::fabs(v);
      c.KeepF32({"gradients", "values", "first", "second"});
      c.segments = slab.segments;
      c.tally = kind.tally;
      // Roundings: scale, gradient, two factors, products and sum of a moment; then its correction,
      // the root, the quotient and the difference.
      if (kind.refused) {
        c.Output("first", 0).Output("second", 0).Output("values", 0);
      } else {
        c.Output("first", 7).Output("second", 9).Output("values", 24);
      }
      c.run = [clip = kind.clip](OperationRun& r) {
        kernels::AdamW({.beta1 = 0.9,
                        .beta2 = 0.98,
                        .epsilon = 1e-2,
                        .weight_decay = 0.1,
                        .step = 3,
                        .rate = 0.05,
                        .clip = clip,
                        .tally = r.tally(),
                        .entries = 1,
                        .segments = r.segments(),
                        .gradients = r["gradients"],
                        .values = r["values"],
                        .first = r["first"],
                        .second = r["second"]},
                       r.context);
      };
      c.by_hand = [=](Hand& h) {
        h.loss_size = std::isfinite(h.tally.loss) ? h.tally.loss : 0;
        if (kind.refused) return;
        const double scale = std::string(kind.name) == "clipped" ? 1.5 / 3 : 1;
        for (const kernels::Segment& segment : slab.segments) {
          for (int64_t i = segment.begin; i < segment.begin + segment.count; ++i) {
            const double g = scale * h["gradients"][At(i)], w = h["values"][At(i)];
            Sum m, v, updated;
            m += 0.9 * h["first"][At(i)];
            m += (1 - 0.9) * g;
            v += 0.98 * h["second"][At(i)];
            v += (1 - 0.98) * g * g;
            const double root = std::sqrt(v.value / (1 - std::pow(0.98, 3))) + 1e-2;
            const double by = 0.05 / (1 - std::pow(0.9, 3)) / root;
            updated += w;
            updated += -by * m.value;
            if (segment.decays) updated += -0.05 * 0.1 * w;
            updated.size += by * m.size;
            h.Put("first", i, m);
            h.Put("second", i, v);
            h.Put("values", i, updated);
          }
        }
      };
      cases.push_back(c);
    }
  }
}

void AddCopies(std::vector<OperationCase>& cases) {
  for (const auto& shape : {Shape{1}, Shape{40003}, Shape{3, 13}, Shape{33, 64}, Shape{600, 70}}) {
    OperationCase zero("zero " + shape.ToString());
    zero.Array("y", shape).Output("y", 0);
    zero.run = [](OperationRun& r) { kernels::Zero({.y = r["y"]}, r.context); };
    zero.by_hand = [](Hand& h) { std::ranges::fill(h.results["y"], Sum{}); };
    cases.push_back(zero);
    OperationCase copy("copy " + shape.ToString());
    copy.Array("from", shape).Array("to", shape).Output("to", 0);
    copy.run = [](OperationRun& r) {
      kernels::Copy({.from = r["from"], .to = r["to"]}, r.context);
    };
    copy.by_hand = [](Hand& h) {
      for (size_t i = 0; i < h["from"].size(); ++i) h.results["to"][i] = {h["from"][i], 0};
    };
    cases.push_back(copy);
  }
}

}  // namespace

std::vector<OperationCase> UpdateCases() {
  std::vector<OperationCase> cases;
  AddGradientNorm(cases);
  AddAdamW(cases);
  AddCopies(cases);
  return cases;
}

}  // namespace favor
