// Cases of operations on the rows of linearised units: a column more, and a factor for each row.
#include "kernels/append_column.h"
#include "kernels/scale_rows.h"
#include "tests/kernels/operation_case.h"

namespace favor {
namespace {

constexpr double kScale = 0.7, kOffset = -0.3;

void AddAppendColumn(std::vector<OperationCase>& cases) {
  for (const Size& one : kSizes) {
    const int64_t rows = one.rows, dim = one.columns;
    for (const bool last : {false, true}) {
      const auto forward = [=](OperationRun& r) {
        kernels::AppendColumn({.x = r["x"],
                               .last = last ? ConstView(r["last"]) : ConstView(),
                               .offset = kOffset,
                               .scale = kScale,
                               .y = r["y"]},
                              r.context);
      };
      const std::string kind = last ? " with numbers" : " of a constant";
      OperationCase c(Named("append column" + kind, rows, dim));
      c.Array("x", {rows, dim}).Array("last", {rows}).Array("y", {rows, dim + 1}).Output("y", 3);
      c.run = forward;
      c.by_hand = [=](Hand& h) {
        for (int64_t i = 0; i < rows * (dim + 1); ++i) {
          const int64_t row = i / (dim + 1), column = i % (dim + 1);
          Sum sum;
          if (column < dim) sum += kScale * h["x"][At(row * dim + column)];
          if (column == dim) sum += kScale * kOffset;
          if (column == dim && last) sum += kScale * h["last"][At(row)];
          h.Put("y", i, sum);
        }
      };
      cases.push_back(c);
    }
    // The gradient of inputs, and of weights with a bias.
    for (const std::string mode : {"of inputs", "of weights", "of weights added"}) {
      const bool weights = mode != "of inputs", add = mode == "of weights added";
      OperationCase b(Named("append column backward " + mode, rows, dim));
      b.Array("x", {rows, dim}).Array("last", {rows}).Array("y", {rows, dim + 1});
      b.Array("grad_y", {rows, dim + 1}).Array("grad_x", {rows, dim}).Array("grad_last", {rows});
      b.Output("grad_x", 3).Gradient("grad_x", "x");
      if (weights) {
        b.Output("grad_last", 3).Gradient("grad_last", "last");
        b.KeepF32({"grad_x", "grad_last"});
      }
      b.forward = [=](OperationRun& r) {
        kernels::AppendColumn(
            {.x = r["x"], .last = r["last"], .offset = kOffset, .scale = kScale, .y = r["y"]},
            r.context);
      };
      b.run = [=](OperationRun& r) {
        kernels::AppendColumnBackward({.grad_y = r["grad_y"],
                                       .scale = kScale,
                                       .add = add,
                                       .grad_x = r["grad_x"],
                                       .grad_last = weights ? r["grad_last"] : View()},
                                      r.context);
      };
      b.by_hand = [=](Hand& h) {
        for (int64_t i = 0; i < rows * dim; ++i) {
          Sum sum;
          if (add) sum += h["grad_x"][At(i)];
          sum += kScale * h["grad_y"][At(i / dim * (dim + 1) + i % dim)];
          h.Put("grad_x", i, sum);
        }
        for (int64_t row = 0; row < rows && weights; ++row) {
          Sum sum;
          sum += h["grad_last"][At(row)];
          sum += kScale * h["grad_y"][At(row * (dim + 1) + dim)];
          h.Put("grad_last", row, sum);
        }
      };
      cases.push_back(b);
    }
  }
}

void AddScaleRows(std::vector<OperationCase>& cases) {
  for (const Size& one : kSizes) {
    const int64_t rows = one.rows, columns = one.columns;
    const auto forward = [=](OperationRun& r) {
      kernels::ScaleRows({.x = r["x"], .factors = r["factors"], .y = r["y"]}, r.context);
    };
    OperationCase c(Named("scale rows", rows, columns));
    c.Array("x", {rows, columns}).Array("factors", {rows}).Array("y", {rows, columns});
    c.Output("y", 1);
    c.run = forward;
    c.by_hand = [=](Hand& h) {
      for (int64_t i = 0; i < rows * columns; ++i) {
        Sum sum;
        sum += h["factors"][At(i / columns)] * h["x"][At(i)];
        h.Put("y", i, sum);
      }
    };
    cases.push_back(c);
    for (const bool in_place : {false, true}) {
      for (const bool fixed : {false, true}) {  // factors that are not learned
        const std::string grad = in_place ? "grad_y" : "grad_x";
        OperationCase b(Named(std::string("scale rows backward") + (in_place ? " in place" : "") +
                                  (fixed ? " with fixed factors" : ""),
                              rows, columns));
        b.Array("x", {rows, columns}).Array("factors", {rows}).Array("y", {rows, columns});
        b.Array("grad_y", {rows, columns}).Array("grad_x", {rows, columns});
        b.Array("grad_factors", {rows}).KeepF32({"grad_factors"}).Output(grad, 1);
        if (!in_place) b.Gradient("grad_x", "x");
        if (!fixed) b.Output("grad_factors", 2);
        if (!fixed && !in_place) b.Gradient("grad_factors", "factors");
        b.forward = forward;
        b.run = [=](OperationRun& r) {
          kernels::ScaleRowsBackward({.x = r["x"],
                                      .factors = r["factors"],
                                      .grad_y = r["grad_y"],
                                      .grad_x = r[grad],
                                      .grad_factors = fixed ? View() : r["grad_factors"]},
                                     r.context);
        };
        b.by_hand = [=](Hand& h) {
          for (int64_t i = 0; i < rows * columns; ++i) {
            Sum sum;
            sum += h["factors"][At(i / columns)] * h["grad_y"][At(i)];
            h.Put(grad, i, sum);
          }
          for (int64_t row = 0; row < rows && !fixed; ++row) {
            Sum sum;
            sum += h["grad_factors"][At(row)];
            for (int64_t i = row * columns; i < (row + 1) * columns; ++i)
              sum += h["grad_y"][At(i)] * h["x"][At(i)];
            h.Put("grad_factors", row, sum);
          }
        };
        cases.push_back(b);
      }
    }
  }
}

}  // namespace

std::vector<OperationCase> UnitCases() {
  std::vector<OperationCase> cases;
  AddAppendColumn(cases);
  AddScaleRows(cases);
  return cases;
}

}  // namespace favor
