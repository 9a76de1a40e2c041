// Cases of operations on tokens' rows: embedding, positions, dropout, last rows, the mean of a
// sequence, and decays.
#include <numbers>

#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/last_rows.h"
#include "kernels/log_decay.h"
#include "kernels/mean_pool.h"
#include "kernels/positions.h"
#include "tests/kernels/operation_case.h"

namespace favor {
namespace {

// Row 2, as the caller knows it or as operations read it.
kernels::FirstRow SecondRow(OperationRun& r) {
  return r.Has("first") ? kernels::FirstRow(r.Indices("first")) : 2;
}

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
        return positions ? kernels::TableRows{.first = SecondRow(r), .length = 3}
                         : kernels::TableRows{.indices = r.Indices("indices")};
      };
      const std::string kind = positions ? " of positions" : " of indices";
      for (const bool add : {false, true}) {
        OperationCase c(Named((add ? "embedding added" : "embedding") + kind, rows, columns));
        c.Array("table", {kEntries, columns}).Array("y", {rows, columns});
        c.Integers("indices", rows, kEntries).Output("y", 3);
        if (positions && add) c.integers["first"] = {2};
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
      c.KeepF32({"grad_table"});
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

void AddWavesAdded(std::vector<OperationCase>& cases, int64_t rows, int64_t length, int64_t width,
                   bool wide) {
  OperationCase c(Named(wide ? "f32 waves added" : "waves added", rows, width));
  c.Array("waves", {length + 2, width / 2, 2}).Array("x", {rows, width}).Output("x", 1);
  if (wide) c.KeepF32({"waves"});
  if (rows % 5 == 0) c.integers["first"] = {2};
  c.run = [=](OperationRun& r) {
    kernels::AddWaves({.waves = r["waves"], .first = SecondRow(r), .length = length, .x = r["x"]},
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
}

// Rows are columns before … before + heads·width of an array with `more` columns more.
struct RowsWithin {
  int64_t before, more;
};

void AddRotation(std::vector<OperationCase>& cases, int64_t rows, int64_t length, int64_t heads,
                 int64_t width, const RowsWithin& within, bool wide, bool back) {
  const auto [before, more] = within;
  const int64_t columns = heads * width, stride = columns + more;
  OperationCase c(Named(std::string(wide ? "f32 " : "") + (back ? "rotation back" : "rotation"),
                        rows, columns) +
                  (more > 0 ? " of " + std::to_string(stride) : ""));
  c.Array("waves", {length + 2, width / 2, 2}).Array("x", {rows, stride}).Output("x", 2);
  if (wide) c.KeepF32({"waves"});
  if (back) c.integers["first"] = {2};
  c.run = [=, before = before](OperationRun& r) {
    kernels::Rotate({.waves = r["waves"],
                     .first = SecondRow(r),
                     .length = length,
                     .back = back,
                     .x = r["x"].Range(1, before, columns)},
                    r.context);
  };
  c.by_hand = [=, before = before](Hand& h) {
    for (int64_t i = 0; i < rows * stride; ++i) {
      const int64_t column = i % stride - before;
      if (column < 0 || column >= columns) {  // stays
        h.Put("x", i, {h["x"][At(i)], 0});
        continue;
      }
      const int64_t half = width / 2, pair = column % half;
      const double* wave = &h["waves"][At((2 + i / stride % length) * width + 2 * pair)];
      const double sine = back ? -wave[1] : wave[1];
      const bool low = column % width < half;
      Sum sum;
      sum += wave[0] * h["x"][At(i)];
      sum += (low ? -sine : sine) * h["x"][At(low ? i + half : i - half)];
      h.Put("x", i, sum);
    }
  };
  cases.push_back(c);
}

void AddPositions(std::vector<OperationCase>& cases) {
  for (const Size& one : {Size{1, 2}, {9, 6}, {700, 38}}) {
    const int64_t positions = one.rows, width = one.columns;
    for (const int64_t first : {0, 5000, 1000000}) {
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
          // The angle itself is only known to a few roundings of doubles.
          h.Put("waves", i, {i % 2 == 0 ? std::cos(angle) : std::sin(angle), 1 + 1e-3 * angle});
        }
      };
      cases.push_back(c);
    }
  }
  struct Heads {
    int64_t rows, length, heads, width;
  };
  // Waves begin two rows further on. A table may be f32 even if the rows are bf16.
  for (const Heads& one :
       {Heads{1, 1, 1, 2}, {10, 5, 3, 6}, {12, 4, 3, 16}, {130, 65, 4, 64}, {660, 33, 2, 22}}) {
    for (const bool wide : {false, true}) {
      AddWavesAdded(cases, one.rows, one.length, one.width, wide);
      for (const bool back : {false, true}) {
        for (const RowsWithin& within : {RowsWithin{0, 0}, {3, 5}, {16, 48}, {0, 4}, {16, 19}})
          AddRotation(cases, one.rows, one.length, one.heads, one.width, within, wide, back);
      }
    }
  }
}

// To another array, and in place.
void AddDropout(std::vector<OperationCase>& cases) {
  const RandomStream stream = RandomStream(3, "dropout").Child(5);
  for (const Size& one : {Size{1, 1}, {3, 13}, {33, 64}, {600, 70}}) {
    const int64_t rows = one.rows, columns = one.columns;
    for (const double share : {0.0, 0.3}) {
      for (const bool residual : {false, true}) {
        for (const std::string to : {"y", "x", "residual"}) {
          if (to == "residual" && !residual) continue;
          OperationCase c(Named(std::string(residual ? "dropout added" : "dropout") +
                                    (share > 0 ? " of a share" : " of nothing") + " to " + to,
                                rows, columns));
          c.Array("x", {rows, columns}).Array("residual", {rows, columns});
          c.Array("y", {rows, columns}).Output(to, 3);
          c.run = [=](OperationRun& r) {
            kernels::Dropout({.x = r["x"],
                              .residual = residual ? ConstView(r["residual"]) : ConstView(),
                              .share = share,
                              .seed = stream.seed(),
                              .stream = stream.id(),
                              .y = r[to]},
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
              h.Put(to, i, sum);
            }
          };
          cases.push_back(c);
        }
      }
    }
  }
}

// Fewer rows than are kept, as many, and more; columns of a wider array.
void AddLastRows(std::vector<OperationCase>& cases) {
  struct Kept {
    int64_t batch, length, most, columns, more;
  };
  for (const Kept& one : {Kept{1, 1, 3, 8, 0},
                          {1, 1, 1, 1, 0},
                          {3, 1, 3, 1536, 8},
                          {2, 2, 7, 33, 3},
                          {1, 4, 4, 19, 0},
                          {5, 9, 6, 64, 24}}) {
    const int64_t batch = one.batch, length = one.length, most = one.most, columns = one.columns,
                  stride = columns + one.more;
    OperationCase c(Named("last " + std::to_string(most) + " of " + std::to_string(length) +
                              " rows of " + std::to_string(stride),
                          batch * length, columns));
    c.Array("x", {batch * length, stride}).Array("kept", {batch, most, columns}).Output("kept", 0);
    c.run = [=](OperationRun& r) {
      kernels::KeepLastRows({.rows = r["x"].Range(1, 0, columns), .kept = r["kept"]}, r.context);
    };
    c.by_hand = [=](Hand& h) {
      for (int64_t i = 0; i < batch * most * columns; ++i) {
        const int64_t sequence = i / (most * columns), column = i % columns;
        const int64_t row = length - most + i / columns % most;
        h.Put("kept", i,
              {row < 0 ? h["kept"][At(i + length * columns)]
                       : h["x"][At((sequence * length + row) * stride + column)],
               0});
      }
    };
    cases.push_back(c);
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

// Logits of one row for all tokens, or of one row each.
void AddLogDecay(std::vector<OperationCase>& cases) {
  struct Shapes {
    int64_t batch, length, heads;
    bool shared;
  };
  for (const Shapes& one : {Shapes{1, 1, 1, false}, {3, 5, 4, false}, {2, 300, 7, true}}) {
    const int64_t batch = one.batch, length = one.length, heads = one.heads;
    const bool shared = one.shared;
    const int64_t rows = batch * length;
    const kernels::Sequences sequences{.batch = batch, .length = length, .mask = {}};
    const auto logits = [=](OperationRun& r) {
      const View view = r["x"];
      return shared ? ConstView(view.data(), view.type(), {rows, heads}, {0, 1}, view.device())
                    : ConstView(view);
    };
    // Element i of [batch, heads, length] belongs to this token and head.
    const auto logit = [=](const Hand& h, int64_t i) {
      const int64_t row = i / (heads * length) * length + i % length, head = i / length % heads;
      return h["x"][At((shared ? 0 : row * heads) + head)];
    };
    const std::string size = Named(shared ? " shared" : "", rows, heads);
    const Shape given{shared ? 1 : rows, heads}, by_head{batch, heads, length};
    OperationCase c("log decay" + size);
    c.Array("x", given).Array("y", by_head).Output("y", 2).KeepF32({"y"});
    c.run = [=](OperationRun& r) {
      kernels::LogDecay(
          {.logits = logits(r), .sequences = sequences, .log_decay = r["y"], .tally = r.tally()},
          r.context);
    };
    c.by_hand = [=](Hand& h) {
      for (int64_t i = 0; i < rows * heads; ++i) {
        Sum sum;
        sum += std::log(1 / (1 + std::exp(-logit(h, i))));
        h.Put("y", i, sum);
      }
    };
    cases.push_back(c);
    OperationCase b("log decay backward" + size);
    b.Array("x", given).Array("grad_y", by_head).Array("grad_x", {rows, heads}).Output("grad_x", 3);
    b.KeepF32({"grad_y"});
    b.run = [=](OperationRun& r) {
      kernels::LogDecayBackward({.logits = logits(r),
                                 .sequences = sequences,
                                 .grad_log_decay = r["grad_y"],
                                 .grad_logits = r["grad_x"]},
                                r.context);
    };
    b.by_hand = [=](Hand& h) {
      for (int64_t i = 0; i < rows * heads; ++i) {
        const int64_t row = i / (heads * length) * length + i % length, head = i / length % heads;
        Sum sum;
        sum += h["grad_y"][At(i)] * (1 - 1 / (1 + std::exp(-logit(h, i))));
        h.Put("grad_x", row * heads + head, sum);
      }
    };
    cases.push_back(b);
  }
}

}  // namespace

std::vector<OperationCase> TokenCases() {
  std::vector<OperationCase> cases;
  AddEmbedding(cases);
  AddPositions(cases);
  AddDropout(cases);
  AddLastRows(cases);
  AddMeanPool(cases);
  AddLogDecay(cases);
  return cases;
}

}  // namespace favor
