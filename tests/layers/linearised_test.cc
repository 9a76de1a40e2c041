// Linearised feed-forward layers: what they compute, and their gradients against central
// differences in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "favor/linearised.h"
#include "layers/feed_forward.h"
#include "tests/layers/check_gradients.h"

namespace favor {
namespace {

constexpr int64_t kWidth = 5, kUnits = 9, kTokens = 7;
constexpr uint64_t kSeed = 13;

double Curved(double t) { return std::exp(t / 3); }  // has coefficients of every degree

Linearisation Plan(int degree, int64_t columns, bool exact_quadratic = false) {
  return LineariseForColumns(Curved, RandomInputs(kWidth + 1, 1, std::sqrt(kWidth + 1.0)),
                             {.degree = degree,
                              .columns = columns,
                              .exact_quadratic = exact_quadratic,
                              .fit = Fit::kChebyshev,
                              .interval = Interval{-3, 3}});
}

// A layer with its memory, for training, and a batch.
class Case {
 public:
  Case(DataType type, const layers::LinearisedShape& shape, int threads = 2)
      : context_({.threads = threads}),
        parameters_({.seed = 3, .type = type}),
        layer_(parameters_, "ff",
               {.width = kWidth, .ff = kUnits, .output_gain = 0.7, .linearised = shape}),
        arena_(type),
        x(RandomDoubles({kTokens, kWidth}, "x").To(type)),
        weights(RandomDoubles({kTokens, kWidth}, "w").To(type)),
        y({kTokens, kWidth}, type),
        grad_x({kTokens, kWidth}, type) {
    parameters_.Allocate();
    // Biases start at 0, where a wrong sign would not show.
    for (const auto& parameter : parameters_.all()) {
      const Tensor noise = RandomDoubles(parameter->shape, parameter->name);
      for (int64_t i = 0; i < parameter->shape.Elements(); ++i) {
        const double by = 0.2 * noise.Data<double>()[i];
        if (type == DataType::kF64) parameter->value.Data<double>()[i] += by;
        if (type == DataType::kF32) parameter->value.Data<float>()[i] += static_cast<float>(by);
      }
    }
    parameters_.ZeroGradients(context_);
    layer_.Draw(kSeed);
    layer_.Reserve(arena_, kTokens);
    layer_.ReserveWorkspace(arena_, kTokens, true);
    arena_.Provide();
    a_ = layer_.Reserve(arena_, kTokens);
    w_ = layer_.ReserveWorkspace(arena_, kTokens, true);
  }

  void Forward(layers::FeedForward::Kept* kept = nullptr) {
    layer_.Forward(context_, x, a_, w_, {}, kept, y);
  }
  void Backward() { layer_.Backward(context_, x, a_, w_, weights, grad_x); }
  const layers::Parameter& Named(const std::string& name) const {
    for (const auto& parameter : parameters_.all())
      if (parameter->name == name) return *parameter;
    ADD_FAILURE() << name;
    return *parameters_.all()[0];
  }
  const std::vector<std::unique_ptr<layers::Parameter>>& parameters() const {
    return parameters_.all();
  }

 private:
  Context context_;
  layers::ParameterSet parameters_;
  layers::FeedForward layer_;
  layers::Arena arena_;
  layers::FeedForward::Activations a_;
  layers::FeedForward::Workspace w_;

 public:
  Tensor x, weights, y, grad_x;
};

// y_ij = b₂_j + Σ_u W₂_ju·unit(u, i), with what a unit gives.
template <class Unit>
void ExpectOutputs(const Case& c, const Unit& unit, double tolerance) {
  const double *w2 = c.Named("ff.down.weight").value.Data<double>(),
               *b2 = c.Named("ff.down.bias").value.Data<double>();
  for (int64_t i = 0; i < kTokens; ++i) {
    for (int64_t j = 0; j < kWidth; ++j) {
      double sum = b2[j];
      for (int64_t u = 0; u < kUnits; ++u) sum += w2[j * kUnits + u] * unit(u, i);
      EXPECT_NEAR(c.y.Data<double>()[i * kWidth + j], sum, tolerance) << i << " " << j;
    }
  }
}

double Argument(const Case& c, int64_t unit, int64_t token) {
  const double *w1 = c.Named("ff.up.weight").value.Data<double>(),
               *b1 = c.Named("ff.up.bias").value.Data<double>();
  double t = b1[unit];
  for (int64_t i = 0; i < kWidth; ++i)
    t += w1[unit * kWidth + i] * c.x.Data<double>()[token * kWidth + i];
  return t;
}

// Without sketches the layer is W₂p(W₁x + b₁) + b₂ with the polynomial p.
TEST(LinearisedFeedForward, IsThePolynomialIfNothingIsRandom) {
  for (const int degree : {1, 2}) {
    const Linearisation plan = Plan(degree, 0, /*exact_quadratic=*/degree == 2);
    Case c(DataType::kF64, {.linearisation = plan});
    c.Forward();
    ExpectOutputs(
        c, [&](int64_t unit, int64_t token) { return plan.polynomial(Argument(c, unit, token)); },
        1e-12);
  }
}

// Every unit with its own polynomial.
TEST(LinearisedFeedForward, HasCurvesOfItsOwn) {
  const Linearisation plan = Plan(2, 0, /*exact_quadratic=*/true);
  Case c(DataType::kF64, {.linearisation = plan, .own_curves = true});
  c.Forward();
  const layers::Parameter& curve = c.Named("ff.curve");
  EXPECT_EQ(curve.shape, (Shape{3, kUnits}));
  EXPECT_FALSE(curve.decays);
  const double* k = curve.value.Data<double>();
  ExpectOutputs(
      c,
      [&](int64_t unit, int64_t token) {
        const double u = Argument(c, unit, token) / 3;
        return k[unit] + k[kUnits + unit] * u + k[2 * kUnits + unit] * u * u;
      },
      1e-12);
}

// With sketches, products of the public features of [w, b] and [x, 1], drawn from the same seed.
TEST(LinearisedFeedForward, IsTheProductOfItsFeatures) {
  const Linearisation plan = Plan(4, 40);
  EXPECT_EQ(plan.Parts().size(), 3u);
  Case c(DataType::kF64, {.linearisation = plan});
  c.Forward();
  const Context context({.threads = 1});
  Tensor w({kUnits, kWidth + 1}, DataType::kF64), x({kTokens, kWidth + 1}, DataType::kF64);
  for (int64_t u = 0; u < kUnits; ++u) {
    for (int64_t i = 0; i < kWidth; ++i)
      w.Data<double>()[u * (kWidth + 1) + i] =
          c.Named("ff.up.weight").value.Data<double>()[u * kWidth + i];
    w.Data<double>()[u * (kWidth + 1) + kWidth] = c.Named("ff.up.bias").value.Data<double>()[u];
  }
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t i = 0; i < kWidth; ++i)
      x.Data<double>()[t * (kWidth + 1) + i] = c.x.Data<double>()[t * kWidth + i];
    x.Data<double>()[t * (kWidth + 1) + kWidth] = 1;
  }
  const LinearisedFeatures features(plan, kSeed);
  const Tensor phi = features.OfWeights(w, context), psi = features.OfInputs(x, context);
  const int64_t width = plan.Width();
  ExpectOutputs(
      c,
      [&](int64_t unit, int64_t token) {
        double sum = 0;
        for (int64_t i = 0; i < width; ++i)
          sum += phi.Data<double>()[unit * width + i] * psi.Data<double>()[token * width + i];
        return sum;
      },
      1e-11);
}

TEST(LinearisedFeedForward, HasTheGradientsOfCentralDifferences) {
  for (const bool own_curves : {false, true}) {
    for (const Linearisation& plan : {Plan(1, 0), Plan(2, 12), Plan(4, 30), Plan(3, 8, true)}) {
      SCOPED_TRACE(plan.Text());
      Case c(DataType::kF64, {.linearisation = plan, .own_curves = own_curves});
      const auto loss = [&] {
        c.Forward();
        return WeightedSum(c.weights, c.y);
      };
      loss();
      c.Backward();
      ExpectGradient("x", c.x, c.grad_x, loss);
      for (const auto& parameter : c.parameters())
        ExpectGradient(parameter->name, parameter->value, parameter->grad, loss);
      // A second call adds to the gradients of parameters.
      const double once = c.Named("ff.down.weight").grad.Data<double>()[3],
                   bias = c.Named("ff.up.bias").grad.Data<double>()[2];
      c.Backward();
      EXPECT_NEAR(c.Named("ff.down.weight").grad.Data<double>()[3], 2 * once, 1e-12);
      EXPECT_NEAR(c.Named("ff.up.bias").grad.Data<double>()[2], 2 * bias, 1e-12);
    }
  }
}

TEST(LinearisedFeedForward, InFloatIsThatInDouble) {
  for (const Linearisation& plan : {Plan(2, 12), Plan(4, 30), Plan(3, 8, true)}) {
    const layers::LinearisedShape shape{.linearisation = plan, .own_curves = true};
    Case exact(DataType::kF64, shape), fast(DataType::kF32, shape);
    exact.Forward();
    fast.Forward();
    exact.Backward();
    fast.Backward();
    const auto expect_near = [&](const std::string& name, ConstView want, ConstView have) {
      double largest = 0, worst = 0;
      for (int64_t i = 0; i < want.shape().Elements(); ++i) {
        largest = std::max(largest, std::fabs(want.Data<double>()[i]));
        worst = std::max(
            worst, std::fabs(want.Data<double>()[i] - static_cast<double>(have.Data<float>()[i])));
      }
      EXPECT_LT(worst, 2e-5 * largest) << name << ": " << plan.Text();
    };
    expect_near("y", exact.y, fast.y);
    expect_near("grad x", exact.grad_x, fast.grad_x);
    for (size_t i = 0; i < exact.parameters().size(); ++i)
      expect_near(exact.parameters()[i]->name, exact.parameters()[i]->grad,
                  fast.parameters()[i]->grad);
  }
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.Data<float>(), b.Data<float>(),
                     static_cast<size_t>(a.shape().Elements()) * sizeof(float)) == 0;
}

TEST(LinearisedFeedForward, KeepsWhatIsMadeOfTheWeights) {
  const layers::LinearisedShape shape{.linearisation = Plan(3, 20)};
  Case c(DataType::kF32, shape), again(DataType::kF32, shape);
  layers::FeedForward::Kept kept;
  c.Forward();
  again.Forward(&kept);
  ASSERT_NE(kept, nullptr);
  EXPECT_TRUE(SameBits(c.y, again.y));
  // From now on the weights are not read.
  std::fill_n(again.Named("ff.up.weight").value.Data<float>(), kUnits * kWidth, 0.0f);
  again.Forward(&kept);
  EXPECT_TRUE(SameBits(c.y, again.y));
  again.Forward();
  EXPECT_FALSE(SameBits(c.y, again.y));
}

TEST(LinearisedFeedForward, GivesTheSameBitsForAnyNumberOfThreads) {
  const layers::LinearisedShape shape{.linearisation = Plan(4, 30), .own_curves = true};
  Case one(DataType::kF32, shape, 1), three(DataType::kF32, shape, 3);
  for (Case* c : {&one, &three}) {
    c->Forward();
    c->Backward();
  }
  EXPECT_TRUE(SameBits(one.y, three.y));
  EXPECT_TRUE(SameBits(one.grad_x, three.grad_x));
  for (size_t i = 0; i < one.parameters().size(); ++i) {
    const View &a = one.parameters()[i]->grad, &b = three.parameters()[i]->grad;
    EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<size_t>(4 * a.shape().Elements())), 0);
  }
}

}  // namespace
}  // namespace favor
