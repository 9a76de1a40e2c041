// n-gram models with interpolated Witten–Bell smoothing: what counting alone tells about the next
// token.
//
//   P(w | h) = (c(hw) + T(h) P(w | h′)) / (c(h) + T(h))
//
// c counts training targets, T(h) is the number of different tokens seen after h, and h′ is h
// without its oldest token. Below the empty history all of the vocabulary is equally likely, with
// T = V: P(w) = (c(w) + 1) / (N + V). (Chen & Goodman 1998, section 2.4.)
#ifndef FAVOR_REPORTS_NGRAM_H_
#define FAVOR_REPORTS_NGRAM_H_

#include <cstdint>
#include <span>
#include <vector>

namespace favor::reports {

// Collects targets with their histories; 8 bytes each.
class NgramCounts {
 public:
  // The highest order: 8 for alphabets of up to 32 tokens, otherwise 4; n-grams are numbers of 64
  // bits, so 3 above 65,536 tokens and 2 above 2,097,152.
  static int MostOrder(int64_t vocab);

  // Tokens are 0 … vocab − 1; `order` is limited to MostOrder.
  NgramCounts(int64_t vocab, int order);

  int64_t vocab() const { return vocab_; }
  int order() const { return order_; }

  // `context`: the history, that is the tokens before the target, oldest first, of which the last
  // order − 1 count; a shorter one is counted for the lower orders only.
  void Add(std::span<const int32_t> context, int32_t target);
  // Reduces the order to at most `order`.
  void Limit(int order);

 private:
  friend class NgramModel;

  int64_t vocab_;
  int order_, bits_;
  // By order − 1: n-grams whose history is no longer. The oldest token is in the highest bits.
  std::vector<std::vector<uint64_t>> keys_;
};

class NgramModel {
 public:
  explicit NgramModel(NgramCounts counts);

  int order() const { return static_cast<int>(orders_.size()); }
  // Uses the last order − 1 tokens of the history; a shorter history uses a lower order.
  double Probability(std::span<const int32_t> context, int32_t token) const;
  // The most probable token; the smallest of several.
  int32_t Best(std::span<const int32_t> context) const;

 private:
  // A history h; the tokens that follow it are `tokens` [begin, begin of the next row).
  struct Row {
    int64_t begin = 0;
    int64_t lower = 0;   // the row of h′ one order below
    double backoff = 1;  // T(h) / (c(h) + T(h))
    int32_t best = 0;
  };
  struct Order {
    std::vector<uint64_t> contexts;  // sorted
    std::vector<Row> rows;           // one per history, and one more for the end
    std::vector<int32_t> tokens;     // sorted within a row
    std::vector<double> probabilities;
  };
  struct Place {
    size_t order;  // index into orders_
    int64_t row;
  };
  struct Counted {
    uint64_t key;
    int64_t count;
  };

  static std::vector<Counted> Reduce(std::vector<Counted> counted);
  void AddOrder(const std::vector<Counted>& counted);
  void Smooth(std::span<const Counted> successors, Order& order, Row& row) const;
  double ProbabilityAt(Place place, int32_t token) const;
  // The place of the longest end of `context` that was seen.
  Place Find(std::span<const int32_t> context) const;

  int64_t vocab_;
  int bits_;
  std::vector<Order> orders_;  // by order − 1
};

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_NGRAM_H_
