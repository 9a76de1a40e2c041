// Cases of what a token's row goes through: embedding, positions, norms, convolutions, activations,
// dropout, and the mean of a sequence.
#include <numbers>

#include "kernels/activation.h"
#include "kernels/convolution.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/layer_norm.h"
#include "kernels/mean_pool.h"
#include "kernels/positions.h"
#include "tests/kernels/operation_case.h"

namespace favor {
namespace {

// Rows and columns: one row, tails of vectors, more rows than a task has or than one sum takes.
constexpr Size kSizes[] = {{1, 1}, {1, 19}, {5, 8}, {7, 33}, {300, 10}, {600, 70}};

void AddEmbedding(std::vector<OperationCase>& cases) {
  constexpr int64_t kEntries = 7;
  constexpr double kScale = 1.7;
  for (const Size& one : kSizes) {
    const int64_t rows = one.rows, columns = one.columns;
    for (const bool positions : {false, true}) {
      // Positions 2, 3, 4, 2, 3, …, or drawn indices.
      const auto entry = [=](const OperationCase& c, int64_t row) {
        return positions ? 2 + row % 3 : c.integers.at("indices")[At(row)];
      };
      const auto rows_of = [=](OperationRun& r) {
        return positions ? kernels::TableRows{.first = 2, .length = 3}
                         : kernels::TableRows{.indices = r.Indices("indices")};
      };
      const std::string kind = positions ? " of positions" : " of indices";
      for (const bool add : {false, true}) {
        OperationCase c(Named((add ? "embedding added" : "embedding") + kind, rows, columns));
        c.Array("table", {kEntries, columns}).Array("y", {rows, columns});
        c.Integers("indices", rows, kEntries).Output("y", 3);
        c.run = [=](OperationRun& r) {
          kernels::Embedding(
              {.table = r["table"], .rows = rows_of(r), .scale = kScale, .add = add, .y = r["y"]},
              r.context);
        };
        c.by_hand = [=, c = c](Hand& h) {
          for (int64_t i = 0; i < rows * columns; ++i) {
            Sum sum;
            if (add) sum += h["y"][At(i)];
            sum += kScale * h["table"][At(entry(c, i / columns) * columns + i % columns)];
            h.Put("y", i, sum);
          }
        };
        cases.push_back(c);
      }
      OperationCase c(Named("embedding backward" + kind, rows, columns));
      c.Array("table", {kEntries, columns}).Array("y", {rows, columns});
      c.Array("grad_y", {rows, columns}).Array("grad_table", {kEntries, columns});
      c.Integers("indices", rows, kEntries).Gradient("grad_table", "table");
      c.Output("grad_table", 2 + static_cast<double>(rows));  // all rows may add to one entry
      c.run = [=](OperationRun& r) {
        kernels::EmbeddingBackward({.grad_y = r["grad_y"],
                                    .rows = rows_of(r),
                                    .scale = kScale,
                                    .grad_table = r["grad_table"]},
                                   r.context);
      };
      c.forward = [=](OperationRun& r) {
        kernels::Embedding({.table = r["table"], .rows = rows_of(r), .scale = kScale, .y = r["y"]},
                           r.context);
      };
      c.by_hand = [=, c = c](Hand& h) {
        for (int64_t e = 0; e < kEntries; ++e) {
          for (int64_t j = 0; j < columns; ++j) {
            Sum sum;
            sum += h["grad_table"][At(e * columns + j)];
            for (int64_t row = 0; row < rows; ++row) {
              if (entry(c, row) == e) sum += kScale * h["grad_y"][At(row * columns + j)];
            }
            h.Put("grad_table", e * columns + j, sum);
          }
        }
      };
      cases.push_back(c);
    }
  }
}

void AddPositions(std::vector<OperationCase>& cases) {
  for (const Size& one : {Size{1, 2}, {9, 6}, {700, 38}}) {
    const int64_t positions = one.rows, width = one.columns;
    for (const int64_t first : {0, 5000}) {
      OperationCase c(Named("waves from " + std::to_string(first), positions, width));
      c.Array("waves", {positions, width / 2, 2}).Output("waves", 1);
      c.run = [=](OperationRun& r) {
        kernels::Waves({.first = first, .waves = r["waves"]}, r.context);
      };
      c.by_hand = [=](Hand& h) {
        for (int64_t i = 0; i < positions * width; ++i) {
          const double exponent =
              static_cast<double>(i % width / 2 * 2) / static_cast<double>(width);
          const double angle = static_cast<double>(first + i / width) / std::pow(10000, exponent);
          // The angle itself is known to a few roundings.
          h.Put("waves", i, {i % 2 == 0 ? std::cos(angle) : std::sin(angle), 1 + angle});
        }
      };
      cases.push_back(c);
    }
  }
  struct Heads {
    int64_t rows, length, heads, width;
  };
  // Waves begin two rows further on.
  for (const Heads& one : {Heads{1, 1, 1, 2}, {10, 5, 3, 6}, {660, 33, 2, 22}}) {
    const int64_t rows = one.rows, length = one.length, heads = one.heads, width = one.width;
    OperationCase c(Named("waves added", rows, width));
    c.Array("waves", {length + 2, width / 2, 2}).Array("x", {rows, width}).Output("x", 1);
    c.run = [=](OperationRun& r) {
      kernels::AddWaves({.waves = r["waves"], .first = 2, .length = length, .x = r["x"]},
                        r.context);
    };
    c.by_hand = [=](Hand& h) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t j = 0; j < width; ++j) {
          Sum sum;
          sum += h["x"][At(row * width + j)];
          sum += h["waves"][At((2 + row % length) * width + (j % 2 == 0 ? j + 1 : j - 1))];
          h.Put("x", row * width + j, sum);
        }
      }
    };
    cases.push_back(c);
    for (const bool back : {false, true}) {
      OperationCase turn(Named(back ? "rotation back" : "rotation", rows, heads * width));
      turn.Array("waves", {length + 2, width / 2, 2}).Array("x", {rows, heads * width});
      turn.Output("x", 2);
      turn.run = [=](OperationRun& r) {
        kernels::Rotate(
            {.waves = r["waves"], .first = 2, .length = length, .back = back, .x = r["x"]},
            r.context);
      };
      turn.by_hand = [=](Hand& h) {
        for (int64_t i = 0; i < rows * heads * width; ++i) {
          const int64_t column = i % width, half = width / 2, pair = column % half;
          const double* wave =
              &h["waves"][At((2 + i / (heads * width) % length) * width + 2 * pair)];
          const double sine = back ? -wave[1] : wave[1];
          const bool low = column < half;
          Sum sum;
          sum += wave[0] * h["x"][At(i)];
          sum += (low ? -sine : sine) * h["x"][At(low ? i + half : i - half)];
          h.Put("x", i, sum);
        }
      };
      cases.push_back(turn);
    }
  }
}

void AddDropout(std::vector<OperationCase>& cases) {
  const RandomStream stream = RandomStream(3, "dropout").Child(5);
  for (const Size& one : {Size{1, 1}, {3, 13}, {600, 70}}) {
    const int64_t rows = one.rows, columns = one.columns;
    for (const double share : {0.0, 0.3}) {
      for (const bool residual : {false, true}) {
        OperationCase c(Named(std::string(residual ? "dropout added" : "dropout") +
                                  (share > 0 ? " of a share" : " of nothing"),
                              rows, columns));
        c.Array("x", {rows, columns}).Array("residual", {rows, columns});
        c.Array("y", {rows, columns}).Output("y", 3);
        c.run = [=](OperationRun& r) {
          kernels::Dropout({.x = r["x"],
                            .residual = residual ? ConstView(r["residual"]) : ConstView(),
                            .share = share,
                            .seed = stream.seed(),
                            .stream = stream.id(),
                            .y = r["y"]},
                           r.context);
        };
        c.by_hand = [=](Hand& h) {
          // 0.3 is 19660 of 65536.
          const double keep = share > 0 ? 65536.0 / (65536 - 19660) : 1;
          for (int64_t i = 0; i < rows * columns; ++i) {
            const uint32_t word = stream.Block(static_cast<uint64_t>(i / 8))[At(i % 8 / 2)];
            const uint32_t bits = i % 2 == 0 ? word % 65536 : word / 65536;
            Sum sum;
            if (residual) sum += h["residual"][At(i)];
            if (share == 0 || bits >= 19660) sum += keep * h["x"][At(i)];
            h.Put("y", i, sum);
          }
        };
        cases.push_back(c);
      }
    }
  }
}

void AddConvolution(std::vector<OperationCase>& cases) {
  struct Convolved {
    int64_t batch, length, columns, taps, ahead;
    bool masked;
  };
  for (const Convolved& one : {Convolved{1, 1, 1, 4, 0, false},
                               {3, 4, 19, 3, 1, true},
                               {2, 5, 8, 7, 3, false},
                               {3, 210, 33, 4, 0, true},
                               {2, 300, 70, 4, 2, false}}) {
    const int64_t batch = one.batch, length = one.length, columns = one.columns, taps = one.taps,
                  ahead = one.ahead;
    const bool masked = one.masked;
    const int64_t rows = batch * length;
    const std::string size = Named(masked ? " masked" : "", rows, columns) + " taps " +
                             std::to_string(taps) + " ahead " + std::to_string(ahead);
    const auto sequences = [=](OperationRun& r) {
      return kernels::Sequences{
          .batch = batch, .length = length, .mask = masked ? ConstView(r["mask"]) : ConstView()};
    };
    const auto forward = [=](OperationRun& r) {
      kernels::Convolution({.x = r["x"],
                            .sequences = sequences(r),
                            .weight = r["weight"],
                            .ahead = ahead,
                            .y = r["y"]},
                           r.context);
    };
    // Tap i of token t reads the token t − i + ahead, which must exist.
    const auto each_tap = [=](const Hand& h, const auto& visit) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t t = row % length - tap + ahead, source = row / length * length + t;
          if (t < 0 || t >= length || (masked && h["mask"][At(source)] == 0)) continue;
          for (int64_t j = 0; j < columns; ++j)
            visit(row * columns + j, tap * columns + j, source * columns + j);
        }
      }
    };
    OperationCase c("convolution" + size);
    c.Array("x", {rows, columns}).Array("weight", {taps, columns}).Array("y", {rows, columns});
    c.Mask(batch, length).Output("y", static_cast<double>(taps + 1));
    c.run = forward;
    c.by_hand = [=](Hand& h) {
      std::vector<Sum> y(At(rows * columns));
      each_tap(h, [&](int64_t to, int64_t weight, int64_t from) {
        y[At(to)] += h["weight"][At(weight)] * h["x"][At(from)];
      });
      h.results["y"] = y;
    };
    cases.push_back(c);

    OperationCase b("convolution backward" + size);
    b.Array("x", {rows, columns}).Array("weight", {taps, columns}).Array("y", {rows, columns});
    b.Array("grad_y", {rows, columns}).Array("grad_x", {rows, columns});
    b.Array("grad_weight", {taps, columns}).Mask(batch, length);
    b.Output("grad_x", static_cast<double>(taps + 1)).Output("grad_weight", 3);
    b.Gradient("grad_x", "x").Gradient("grad_weight", "weight");
    b.forward = forward;
    b.run = [=](OperationRun& r) {
      kernels::ConvolutionBackward({.x = r["x"],
                                    .sequences = sequences(r),
                                    .weight = r["weight"],
                                    .ahead = ahead,
                                    .grad_y = r["grad_y"],
                                    .grad_x = r["grad_x"],
                                    .grad_weight = r["grad_weight"]},
                                   r.context);
    };
    b.by_hand = [=](Hand& h) {
      std::vector<Sum> grad_x(At(rows * columns)), &grad_weight = h.results["grad_weight"];
      each_tap(h, [&](int64_t to, int64_t weight, int64_t from) {
        const double grad = h["grad_y"][At(to)];
        grad_x[At(from)] += h["weight"][At(weight)] * grad;
        grad_weight[At(weight)] += h["x"][At(from)] * grad;
      });
      h.results["grad_x"] = grad_x;
    };
    cases.push_back(b);
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
  for (const Size& one : kSizes) {
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
      if (!again) c.Output("statistics", 2);
      c.run = forward(again);
      c.by_hand = [=](Hand& h) {
        for (int64_t row = 0; row < rows; ++row) {
          auto [mean, scale] = Statistics(h["x"], row, width);
          if (again) {  // whatever the statistics say
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
    for (const bool add : {false, true}) {
      OperationCase c(
          Named(add ? "layer norm backward added" : "layer norm backward", rows, width));
      c.Array("x", {rows, width}).Array("gain", {width}).Array("bias", {width});
      c.Array("y", {rows, width}).Array("grad_y", {rows, width}).Array("grad_x", {rows, width});
      c.Array("grad_gain", {width}).Array("grad_bias", {width}).Array("statistics", {rows, 2});
      c.Output("grad_x", 12).Output("grad_gain", 12).Output("grad_bias", 12);
      c.Gradient("grad_gain", "gain").Gradient("grad_bias", "bias").Gradient("grad_x", "x");
      c.forward = forward(false);
      c.run = [=](OperationRun& r) {
        forward(false)(r);
        kernels::LayerNormBackward({.x = r["x"],
                                    .gain = r["gain"],
                                    .statistics = r["statistics"],
                                    .grad_y = r["grad_y"],
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
          Numbers normed, inexact;  // what rounding makes of `normed` is relative to it
          for (int64_t i = 0; i < width; ++i) {
            const double x = h["x"][At(row * width + i)];
            normed.push_back((x - mean) * scale);
            inexact.push_back((std::fabs(x) + std::fabs(mean)) * scale);
          }
          Sum mean_grad, mean_product;
          for (int64_t i = 0; i < width; ++i) {
            const double grad = h["grad_y"][At(row * width + i)], gained = grad * h["gain"][At(i)];
            mean_grad += gained / count;
            mean_product.value += gained * normed[At(i)] / count;
            mean_product.size += std::fabs(gained) * inexact[At(i)] / count;
            Sum& grad_gain = h.results["grad_gain"][At(i)];
            grad_gain.value += grad * normed[At(i)];
            grad_gain.size += std::fabs(grad) * inexact[At(i)];
            h.results["grad_bias"][At(i)] += grad;
          }
          for (int64_t j = 0; j < width; ++j) {
            const int64_t at = row * width + j;
            const double gained = h["grad_y"][At(at)] * h["gain"][At(j)];
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

void AddActivation(std::vector<OperationCase>& cases) {
  for (const Size& one : {Size{1, 1}, {3, 13}, {600, 70}}) {
    const int64_t rows = one.rows, columns = one.columns;
    for (const Activation f : {Activation::kRelu, Activation::kGelu}) {
      const std::string kind = f == Activation::kRelu ? "relu" : "gelu";
      const auto value = [=](double x) {
        if (f == Activation::kRelu) return std::max(x, 0.0);
        return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
      };
      const auto slope = [=](double x) {
        if (f == Activation::kRelu) return x > 0 ? 1.0 : 0.0;
        return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) +
               x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
      };
      const auto forward = [=](OperationRun& r) {
        kernels::Activate({.f = f, .x = r["x"], .y = r["y"]}, r.context);
      };
      OperationCase c(Named(kind, rows, columns));
      // 2e-7·(1 + |x|) and, of the slope, 1e-6: the errors of vector_math.h.
      c.Array("x", {rows, columns}).Array("y", {rows, columns}).Output("y", 4);
      c.run = forward;
      c.by_hand = [=](Hand& h) {
        for (int64_t i = 0; i < rows * columns; ++i)
          h.Put("y", i, {value(h["x"][At(i)]), 1 + std::fabs(h["x"][At(i)])});
      };
      cases.push_back(c);
      OperationCase b(Named(kind + " backward", rows, columns));
      b.Array("x", {rows, columns}).Array("y", {rows, columns}).Array("grad_y", {rows, columns});
      b.Array("grad_x", {rows, columns}).Output("grad_x", 17).Gradient("grad_x", "x");
      b.forward = forward;
      b.run = [=](OperationRun& r) {
        kernels::ActivateBackward(
            {.f = f, .x = r["x"], .grad_y = r["grad_y"], .grad_x = r["grad_x"]}, r.context);
      };
      b.by_hand = [=](Hand& h) {
        for (int64_t i = 0; i < rows * columns; ++i) {
          const double grad = h["grad_y"][At(i)];
          h.Put("grad_x", i, {grad * slope(h["x"][At(i)]), std::fabs(grad)});
        }
      };
      cases.push_back(b);
    }
  }
}

void AddMeanPool(std::vector<OperationCase>& cases) {
  struct Pooled {
    int64_t batch, length, width;
    bool masked;
  };
  for (const Pooled& one :
       {Pooled{1, 1, 1, false}, {3, 5, 19, true}, {2, 300, 33, false}, {5, 120, 70, true}}) {
    const int64_t batch = one.batch, length = one.length, width = one.width;
    const bool masked = one.masked;
    const int64_t rows = batch * length;
    const std::string size = Named(masked ? " masked" : "", rows, width);
    const auto sequences = [=](OperationRun& r) {
      return kernels::Sequences{
          .batch = batch, .length = length, .mask = masked ? ConstView(r["mask"]) : ConstView()};
    };
    const auto forward = [=](OperationRun& r) {
      kernels::MeanPool({.x = r["x"], .sequences = sequences(r), .y = r["y"]}, r.context);
    };
    const auto weight = [=](const Hand& h, int64_t row) {
      double tokens = 0;
      for (int64_t i = row / length * length; i < (row / length + 1) * length; ++i)
        tokens += masked ? h["mask"][At(i)] : 1;
      return !masked || h["mask"][At(row)] != 0 ? 1 / tokens : 0;
    };
    OperationCase c("mean pool" + size);
    c.Array("x", {rows, width}).Array("y", {batch, width}).Mask(batch, length).Output("y", 1);
    c.run = forward;
    c.by_hand = [=](Hand& h) {
      std::vector<Sum> y(At(batch * width));
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t j = 0; j < width; ++j)
          y[At(row / length * width + j)] += weight(h, row) * h["x"][At(row * width + j)];
      }
      h.results["y"] = y;
    };
    cases.push_back(c);
    OperationCase b("mean pool backward" + size);
    b.Array("x", {rows, width}).Array("y", {batch, width}).Array("grad_y", {batch, width});
    b.Array("grad_x", {rows, width}).Mask(batch, length);
    b.Output("grad_x", 2).Gradient("grad_x", "x");
    b.forward = forward;
    b.run = [=](OperationRun& r) {
      kernels::MeanPoolBackward(
          {.grad_y = r["grad_y"], .sequences = sequences(r), .grad_x = r["grad_x"]}, r.context);
    };
    b.by_hand = [=](Hand& h) {
      for (int64_t i = 0; i < rows * width; ++i) {
        const int64_t row = i / width;
        Sum sum;
        sum += weight(h, row) * h["grad_y"][At(row / length * width + i % width)];
        h.Put("grad_x", i, sum);
      }
    };
    cases.push_back(b);
  }
}

}  // namespace

std::vector<OperationCase> LayerCases() {
  std::vector<OperationCase> cases;
  AddEmbedding(cases);
  AddPositions(cases);
  AddDropout(cases);
  AddConvolution(cases);
  AddLayerNorm(cases);
  AddActivation(cases);
  AddMeanPool(cases);
  return cases;
}

}  // namespace favor
