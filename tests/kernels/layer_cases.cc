// Cases of what layers compute from tokens' rows: convolutions, norms, activations.
#include <algorithm>
#include <array>
#include <numbers>

#include "kernels/activation.h"
#include "kernels/convolution.h"
#include "kernels/layer_norm.h"
#include "tests/kernels/operation_case.h"

namespace favor {
namespace {

// Where rows of x, y and their gradients lie: in arrays of their own, or in columns of wider ones,
// which begin at multiples of 8 columns; of the widths only those of kAligned are such multiples.
enum class Rows { kTogether, kAligned, kApart };

// Rows that are apart have two weights.
void AddConvolution(std::vector<OperationCase>& cases, Rows lie) {
  struct Convolved {
    int64_t batch, length, columns, taps, ahead;
    bool masked;
  };
  for (const Convolved& one : {Convolved{1, 1, 1, 4, 0, false},
                               {3, 4, 19, 3, 1, true},
                               {2, 5, 8, 7, 3, false},
                               {3, 210, 33, 4, 0, true},
                               {2, 300, 70, 4, 2, false},
                               {2, 40, 64, 4, 0, true},
                               {2, 45, 64, 4, 0, false}}) {
    const int64_t batch = one.batch, length = one.length, columns = one.columns, taps = one.taps,
                  ahead = one.ahead;
    const bool masked = one.masked;
    const int64_t rows = batch * length;
    const std::string size = Named(masked ? " masked" : "", rows, columns) + " taps " +
                             std::to_string(taps) + " ahead " + std::to_string(ahead) +
                             std::array{"", " aligned", " apart"}[static_cast<size_t>(lie)];
    const bool apart = lie != Rows::kTogether;
    const int64_t own = !apart         ? columns
                        : columns < 16 ? columns / 3
                                       : columns / 16 * 8,
                  others = columns - own;  // columns of the weights
    const bool two = apart && own > 0;
    // Columns before the rows, and in all.
    struct Around {
      int64_t before, all;
    };
    const auto around = [=](int64_t before, int64_t more) {
      const int64_t odd = lie == Rows::kApart ? 3 : 0;
      return apart ? Around{before, columns + more + odd} : Around{0, columns};
    };
    const Around of_x = around(8, 24), of_y = around(16, 16), of_grad_y = around(0, 8),
                 of_grad_x = around(24, 40);
    const auto sequences = [=](OperationRun& r) {
      return kernels::Sequences{
          .batch = batch, .length = length, .mask = masked ? ConstView(r["mask"]) : ConstView()};
    };
    const auto part = [=](const View& array, const Around& place) {
      return array.Range(1, place.before, columns);
    };
    const auto weights = [=](OperationRun& r) {
      std::vector<ConstView> views = {r["weight"]};
      if (two) views.push_back(r["weight 2"]);
      return views;
    };
    const auto forward = [=](OperationRun& r) {
      kernels::Convolution({.x = part(r["x"], of_x),
                            .sequences = sequences(r),
                            .weights = weights(r),
                            .ahead = ahead,
                            .y = part(r["y"], of_y)},
                           r.context);
    };
    // Calls visit(row of y, tap, row of x, column). Tap i of token t reads the token t − i + ahead,
    // which must exist.
    const auto each_tap = [=](const Hand& h, const auto& visit) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t t = row % length - tap + ahead, source = row / length * length + t;
          if (t < 0 || t >= length || (masked && h["mask"][At(source)] == 0)) continue;
          for (int64_t j = 0; j < columns; ++j) visit(row, tap, source, j);
        }
      }
    };
    const auto at = [](const Around& place, int64_t row, int64_t column) {
      return At(row * place.all + place.before + column);
    };
    // The weight of a column, or its gradient, and its place there.
    struct OfColumn {
      const char* suffix;
      size_t place;
    };
    const auto of_column = [=](int64_t tap, int64_t j) {
      if (!two) return OfColumn{"", At(tap * columns + j)};
      return j < own ? OfColumn{"", At(tap * own + j)} : OfColumn{" 2", At(tap * others + j - own)};
    };
    const auto weight_at = [=](const Hand& h, int64_t tap, int64_t j) {
      const OfColumn of = of_column(tap, j);
      return h[std::string("weight") + of.suffix][of.place];
    };
    const auto add_weights = [=](OperationCase& to, const std::string& name) {
      to.Array(name, {taps, two ? own : columns});
      if (two) to.Array(name + " 2", {taps, others});
    };
    // Sums of 0 in the rows; what lies around them stays.
    const auto zeros = [=](const Numbers& before, const Around& place) {
      std::vector<Sum> sums(before.size());
      for (size_t i = 0; i < sums.size(); ++i) sums[i] = {before[i], 0};
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t j = 0; j < columns; ++j) sums[at(place, row, j)] = {};
      }
      return sums;
    };
    OperationCase c("convolution" + size);
    c.Array("x", {rows, of_x.all}).Array("y", {rows, of_y.all});
    add_weights(c, "weight");
    c.Mask(batch, length).Output("y", static_cast<double>(taps + 1));
    c.run = forward;
    c.by_hand = [=](Hand& h) {
      std::vector<Sum> y = zeros(h["y"], of_y);
      each_tap(h, [&](int64_t row, int64_t tap, int64_t source, int64_t j) {
        y[at(of_y, row, j)] += weight_at(h, tap, j) * h["x"][at(of_x, source, j)];
      });
      h.results["y"] = y;
    };
    cases.push_back(c);

    OperationCase b("convolution backward" + size);
    b.Array("x", {rows, of_x.all}).Array("y", {rows, of_y.all});
    b.Array("grad_y", {rows, of_grad_y.all}).Array("grad_x", {rows, of_grad_x.all});
    add_weights(b, "weight");
    add_weights(b, "grad_weight");
    b.Mask(batch, length).KeepF32({"grad_weight"});
    b.Output("grad_x", static_cast<double>(taps + 1)).Output("grad_weight", 3);
    if (two) b.KeepF32({"grad_weight 2"}).Output("grad_weight 2", 3);
    if (!apart) {
      b.Gradient("grad_x", "x").Gradient("grad_weight", "weight");
      b.forward = forward;
    }
    b.run = [=](OperationRun& r) {
      std::vector<View> gradients = {r["grad_weight"]};
      if (two) gradients.push_back(r["grad_weight 2"]);
      kernels::ConvolutionBackward({.x = part(r["x"], of_x),
                                    .sequences = sequences(r),
                                    .weights = weights(r),
                                    .ahead = ahead,
                                    .grad_y = part(r["grad_y"], of_grad_y),
                                    .grad_x = part(r["grad_x"], of_grad_x),
                                    .grad_weights = gradients},
                                   r.context);
    };
    b.by_hand = [=](Hand& h) {
      std::vector<Sum> grad_x = zeros(h["grad_x"], of_grad_x);
      each_tap(h, [&](int64_t row, int64_t tap, int64_t source, int64_t j) {
        const double grad = h["grad_y"][at(of_grad_y, row, j)];
        grad_x[at(of_grad_x, source, j)] += weight_at(h, tap, j) * grad;
        const OfColumn of = of_column(tap, j);
        h.results[std::string("grad_weight") + of.suffix][of.place] +=
            h["x"][at(of_x, source, j)] * grad;
      });
      h.results["grad_x"] = grad_x;
    };
    cases.push_back(b);
  }
}

// Rows that follow others, which lie in columns of a wider array.
void AddContinuedConvolution(std::vector<OperationCase>& cases) {
  struct Continued {
    int64_t batch, length, before, columns, taps;
  };
  for (const Continued& one : {Continued{1, 1, 3, 8, 4},
                               {1, 1, 0, 8, 4},
                               {3, 2, 1, 5, 4},
                               {1, 9, 3, 64, 4},
                               {5, 1, 3, 64, 4},
                               {2, 6, 2, 33, 7}}) {
    const int64_t batch = one.batch, length = one.length, before = one.before,
                  columns = one.columns, taps = one.taps;
    for (const int64_t more : {0, 3}) {
      const int64_t stride = columns + more;
      OperationCase c(Named(
          "convolution after " + std::to_string(before) + " rows of " + std::to_string(stride),
          batch * length, columns));
      c.Array("x", {batch * length, columns}).Array("weight", {taps, columns});
      const int64_t most = std::max<int64_t>(before, 1);
      c.Array("history", {batch, most, stride}).Array("y", {batch * length, columns});
      c.Output("y", static_cast<double>(taps + 1));
      c.run = [=](OperationRun& r) {
        kernels::Convolution({.x = r["x"],
                              .sequences = {.batch = batch, .length = length, .mask = {}},
                              .weights = {r["weight"]},
                              .history = r["history"].Range(1, 0, before).Range(2, 0, columns),
                              .y = r["y"]},
                             r.context);
      };
      c.by_hand = [=](Hand& h) {
        for (int64_t i = 0; i < batch * length * columns; ++i) {
          Sum sum;
          for (int64_t tap = 0; tap < taps; ++tap) {
            const int64_t sequence = i / columns / length, from = i / columns % length - tap,
                          column = i % columns;
            if (from < -before) continue;
            sum += h["weight"][At(tap * columns + column)] *
                   (from < 0 ? h["history"][At((sequence * most + before + from) * stride + column)]
                             : h["x"][At((sequence * length + from) * columns + column)]);
          }
          h.Put("y", i, sum);
        }
      };
      cases.push_back(c);
    }
  }
}

constexpr double kEpsilon = 1e-3;

// Mean and 1/√(variance + ε) of a row.
std::pair<double, double> Statistics(const Numbers& x, int64_t row, int64_t width) {
  double mean = 0, variance = 0;
  const auto count = static_cast<double>(width);
  for (int64_t i = 0; i < width; ++i) mean += x[At(row * width + i)] / count;
  for (int64_t i = 0; i < width; ++i)
    variance += std::pow(x[At(row * width + i)] - mean, 2) / count;
  return {mean, 1 / std::sqrt(variance + kEpsilon)};
}

void AddLayerNorm(std::vector<OperationCase>& cases) {
  std::vector<Size> sizes(std::begin(kSizes), std::end(kSizes));
  sizes.push_back({2, 10008});  // more than the registers of a block hold
  for (const Size& one : sizes) {
    const int64_t rows = one.rows, width = one.columns;
    const auto forward = [](bool again) {
      return [=](OperationRun& r) {
        kernels::LayerNorm({.x = r["x"],
                            .gain = r["gain"],
                            .bias = r["bias"],
                            .epsilon = kEpsilon,
                            .again = again,
                            .statistics = r["statistics"],
                            .y = r["y"]},
                           r.context);
      };
    };
    for (const bool again : {false, true}) {
      OperationCase c(Named(again ? "layer norm again" : "layer norm", rows, width));
      c.Array("x", {rows, width}).Array("gain", {width}).Array("bias", {width});
      c.Array("statistics", {rows, 2}).Array("y", {rows, width}).Output("y", 6);
      c.KeepF32({"statistics"});
      if (!again) c.Output("statistics", 2);
      c.run = forward(again);
      c.by_hand = [=](Hand& h) {
        for (int64_t row = 0; row < rows; ++row) {
          auto [mean, scale] = Statistics(h["x"], row, width);
          if (again) {  // the given statistics, whatever they are
            mean = h["statistics"][At(2 * row)];
            scale = h["statistics"][At(2 * row + 1)];
          } else {
            h.Put("statistics", 2 * row, {mean, 1});
            h.Put("statistics", 2 * row + 1, {scale, scale});
          }
          for (int64_t i = 0; i < width; ++i) {
            Sum sum;
            const double factor = scale * h["gain"][At(i)];
            sum += h["x"][At(row * width + i)] * factor;
            sum += -mean * factor;
            sum += h["bias"][At(i)];
            h.Put("y", row * width + i, sum);
          }
        }
      };
      cases.push_back(c);
    }
    for (const std::string mode : {"stored", "added", "in place"}) {
      const bool add = mode == "added";
      const std::string grad = mode == "in place" ? "grad_x" : "grad_y";
      OperationCase c(Named("layer norm backward " + mode, rows, width));
      c.Array("x", {rows, width}).Array("gain", {width}).Array("bias", {width});
      c.Array("y", {rows, width}).Array("grad_y", {rows, width}).Array("grad_x", {rows, width});
      c.Array("grad_gain", {width}).Array("grad_bias", {width}).Array("statistics", {rows, 2});
      c.Output("grad_x", 12).Output("grad_gain", 12).Output("grad_bias", 12);
      c.KeepF32({"statistics", "grad_gain", "grad_bias"});
      if (mode != "in place")
        c.Gradient("grad_gain", "gain").Gradient("grad_bias", "bias").Gradient("grad_x", "x");
      c.forward = forward(false);
      c.run = [=](OperationRun& r) {
        forward(false)(r);
        kernels::LayerNormBackward({.x = r["x"],
                                    .gain = r["gain"],
                                    .statistics = r["statistics"],
                                    .grad_y = r[grad],
                                    .add = add,
                                    .grad_x = r["grad_x"],
                                    .grad_gain = r["grad_gain"],
                                    .grad_bias = r["grad_bias"]},
                                   r.context);
      };
      // From ∂y_i/∂x_j = gain_i·scale·(δ_ij − 1/n − n_i·n_j/n), n the normed row.
      c.by_hand = [=](Hand& h) {
        const auto count = static_cast<double>(width);
        for (int64_t row = 0; row < rows; ++row) {
          const auto [mean, scale] = Statistics(h["x"], row, width);
          Numbers normed, inexact;  // rounding of `normed` is relative to `inexact`
          for (int64_t i = 0; i < width; ++i) {
            const double x = h["x"][At(row * width + i)];
            normed.push_back((x - mean) * scale);
            inexact.push_back((std::fabs(x) + std::fabs(mean)) * scale);
          }
          Sum mean_grad, mean_product;
          for (int64_t i = 0; i < width; ++i) {
            const double grad_y = h[grad][At(row * width + i)], gained = grad_y * h["gain"][At(i)];
            mean_grad += gained / count;
            mean_product.value += gained * normed[At(i)] / count;
            mean_product.size += std::fabs(gained) * inexact[At(i)] / count;
            Sum& grad_gain = h.results["grad_gain"][At(i)];
            grad_gain.value += grad_y * normed[At(i)];
            grad_gain.size += std::fabs(grad_y) * inexact[At(i)];
            h.results["grad_bias"][At(i)] += grad_y;
          }
          for (int64_t j = 0; j < width; ++j) {
            const int64_t at = row * width + j;
            const double gained = h[grad][At(at)] * h["gain"][At(j)];
            Sum sum;
            if (add) sum += h["grad_x"][At(at)];
            sum.value += scale * (gained - mean_grad.value - normed[At(j)] * mean_product.value);
            sum.size += scale * (std::fabs(gained) + mean_grad.size +
                                 (1 + inexact[At(j)]) * mean_product.size);
            h.Put("grad_x", at, sum);
          }
        }
      };
      cases.push_back(c);
    }
  }
}

constexpr double kCubic = 0.044715;

double Value(Activation f, double x) {
  switch (f) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + kCubic * x * x * x)));
  }
  return 0;
}
double Slope(Activation f, double x) {
  switch (f) {
    case Activation::kRelu:
      return x > 0 ? 1.0 : 0.0;
    case Activation::kGelu:
      return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) +
             x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    case Activation::kGeluTanh: {
      const double root = std::sqrt(2 / std::numbers::pi);
      const double t = std::tanh(root * (x + kCubic * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * kCubic * x * x);
    }
  }
  return 0;
}

// The gradient alone, and in place together with the value.
void AddActivation(std::vector<OperationCase>& cases) {
  for (const Size& one : {Size{1, 1}, {3, 13}, {33, 64}, {600, 70}}) {
    const int64_t rows = one.rows, columns = one.columns;
    for (const Activation f : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
      const std::string kind(Name(f));
      const auto forward = [=](OperationRun& r) {
        kernels::Activate({.f = f, .x = r["x"], .y = r["y"]}, r.context);
      };
      // 2e-7·(1 + |x|) and, for the slope, 1e-6: the errors of vector_math.h.
      const double of_value = 4, of_slope = 17;
      OperationCase c(Named(kind, rows, columns));
      c.Array("x", {rows, columns}).Array("y", {rows, columns}).Output("y", of_value);
      c.run = forward;
      c.by_hand = [=](Hand& h) {
        for (int64_t i = 0; i < rows * columns; ++i)
          h.Put("y", i, {Value(f, h["x"][At(i)]), 1 + std::fabs(h["x"][At(i)])});
      };
      cases.push_back(c);
      for (const bool in_place : {false, true}) {
        const std::string grad = in_place ? "grad_y" : "grad_x";
        OperationCase b(Named(kind + " backward" + (in_place ? " in place" : ""), rows, columns));
        b.Array("x", {rows, columns}).Array("y", {rows, columns}).Array("grad_y", {rows, columns});
        b.Array("grad_x", {rows, columns}).Output(grad, of_slope);
        if (in_place) {
          b.Output("y", of_value);
        } else {
          b.Gradient("grad_x", "x");
        }
        b.forward = forward;
        b.run = [=](OperationRun& r) {
          kernels::ActivateBackward({.f = f,
                                     .x = r["x"],
                                     .grad_y = r["grad_y"],
                                     .grad_x = r[grad],
                                     .y = in_place ? r["y"] : View()},
                                    r.context);
        };
        b.by_hand = [=](Hand& h) {
          for (int64_t i = 0; i < rows * columns; ++i) {
            const double x = h["x"][At(i)], grad_y = h["grad_y"][At(i)];
            h.Put(grad, i, {grad_y * Slope(f, x), std::fabs(grad_y)});
            if (in_place) h.Put("y", i, {Value(f, x), 1 + std::fabs(x)});
          }
        };
        cases.push_back(b);
      }
    }
  }
}

}  // namespace

std::vector<OperationCase> LayerCases() {
  std::vector<OperationCase> cases;
  for (const Rows lie : {Rows::kTogether, Rows::kAligned, Rows::kApart}) AddConvolution(cases, lie);
  AddContinuedConvolution(cases);
  AddLayerNorm(cases);
  AddActivation(cases);
  return cases;
}

}  // namespace favor
