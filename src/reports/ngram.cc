#include "reports/ngram.h"

#include <algorithm>

namespace favor::reports {
namespace {

constexpr int kKeyBits = 64;

constexpr int64_t kSmallVocab = 32;

int TokenBits(int64_t vocab) {
  if (vocab <= kSmallVocab) return 5;
  if (vocab <= int64_t{1} << 16) return 16;
  return vocab <= int64_t{1} << 21 ? 21 : 32;
}

uint64_t PackTokens(std::span<const int32_t> tokens, int bits) {
  uint64_t key = 0;
  for (const int32_t token : tokens) key = key << bits | static_cast<uint32_t>(token);
  return key;
}

// The bits of the last `tokens` tokens of a key.
uint64_t LowMask(int tokens, int bits) {
  return tokens * bits >= kKeyBits ? ~uint64_t{0} : (uint64_t{1} << tokens * bits) - 1;
}

std::span<const int32_t> Last(std::span<const int32_t> context, int most) {
  return context.last(std::min(context.size(), static_cast<size_t>(most)));
}

}  // namespace

int NgramCounts::MostOrder(int64_t vocab) {
  return vocab <= kSmallVocab ? 8 : std::min(4, kKeyBits / TokenBits(vocab));
}

NgramCounts::NgramCounts(int64_t vocab, int order)
    : vocab_(vocab),
      order_(std::clamp(order, 1, MostOrder(vocab))),
      bits_(TokenBits(vocab)),
      keys_(static_cast<size_t>(order_)) {}

void NgramCounts::Add(std::span<const int32_t> context, int32_t target) {
  const std::span<const int32_t> seen = Last(context, order_ - 1);
  keys_[seen.size()].push_back(PackTokens(seen, bits_) << bits_ | static_cast<uint32_t>(target));
}

void NgramCounts::Limit(int order) {
  if (order >= order_) return;
  order_ = std::max(order, 1);
  std::vector<uint64_t>& kept = keys_[static_cast<size_t>(order_) - 1];
  for (size_t i = static_cast<size_t>(order_); i < keys_.size(); ++i) {
    for (const uint64_t key : keys_[i]) kept.push_back(key & LowMask(order_, bits_));
  }
  keys_.resize(static_cast<size_t>(order_));
}

NgramModel::NgramModel(NgramCounts counts) : vocab_(counts.vocab_), bits_(counts.bits_) {
  // Only the highest order sorts all targets; lower orders merge what the order above counted.
  std::vector<std::vector<Counted>> counted(counts.keys_.size());
  for (size_t order = counts.keys_.size(); order-- > 0;) {
    std::vector<uint64_t>& keys = counts.keys_[order];
    std::ranges::sort(keys);
    std::vector<Counted>& all = counted[order];
    for (const uint64_t key : keys) {
      if (all.empty() || all.back().key != key) all.push_back({key, 0});
      ++all.back().count;
    }
    keys = {};
    if (order + 1 == counted.size()) continue;
    const uint64_t mask = LowMask(static_cast<int>(order) + 1, bits_);
    for (const Counted& longer : counted[order + 1])
      all.push_back({longer.key & mask, longer.count});
    all = Reduce(std::move(all));
  }
  for (const std::vector<Counted>& order : counted) AddOrder(order);
}

std::vector<NgramModel::Counted> NgramModel::Reduce(std::vector<Counted> counted) {
  std::ranges::sort(counted, {}, &Counted::key);
  size_t kept = 0;
  for (const Counted& each : counted) {
    if (kept > 0 && counted[kept - 1].key == each.key) {
      counted[kept - 1].count += each.count;
    } else {
      counted[kept++] = each;
    }
  }
  counted.resize(kept);
  return counted;
}

void NgramModel::AddOrder(const std::vector<Counted>& counted) {
  const int index = static_cast<int>(orders_.size());
  const uint64_t token_mask = LowMask(1, bits_);
  Order order;
  order.tokens.reserve(counted.size());
  order.probabilities.reserve(counted.size());
  for (size_t begin = 0, end = 0; begin < counted.size(); begin = end) {
    const uint64_t context = counted[begin].key >> bits_;
    while (end < counted.size() && counted[end].key >> bits_ == context) ++end;
    Row row{.begin = static_cast<int64_t>(begin)};
    if (index > 0) {
      const std::vector<uint64_t>& below = orders_.back().contexts;
      row.lower =
          std::ranges::lower_bound(below, context & LowMask(index - 1, bits_)) - below.begin();
    }
    for (size_t i = begin; i < end; ++i)
      order.tokens.push_back(static_cast<int32_t>(counted[i].key & token_mask));
    Smooth(std::span(counted).subspan(begin, end - begin), order, row);
    order.contexts.push_back(context);
    order.rows.push_back(row);
  }
  if (index == 0 && order.rows.empty()) {  // nothing was counted: all tokens are equally likely
    order.contexts.push_back(0);
    order.rows.push_back({});
  }
  order.rows.push_back({.begin = static_cast<int64_t>(counted.size())});
  orders_.push_back(std::move(order));
}

// Appends the probabilities of the tokens that follow a history, and finds the best of all tokens.
// Those that do not follow have backoff · P(· | h′), so that the best of them is the best below,
// unless that one follows h too; then it beats them all, for c(hw) > 0 comes on top. Hence the best
// is one of what follows and the best below.
void NgramModel::Smooth(std::span<const Counted> successors, Order& order, Row& row) const {
  const bool lowest = orders_.empty();
  const double uniform = 1 / static_cast<double>(vocab_);
  int64_t total = 0;
  for (const Counted& each : successors) total += each.count;
  const auto different = static_cast<double>(lowest ? vocab_ : std::ssize(successors));
  const double all = static_cast<double>(total) + different;
  row.backoff = different / all;
  const std::span<const int32_t> tokens =
      std::span(order.tokens).subspan(static_cast<size_t>(row.begin));
  row.best = lowest ? 0 : orders_.back().rows[static_cast<size_t>(row.lower)].best;
  double best = -1;
  if (!std::ranges::binary_search(tokens, row.best)) {
    best = row.backoff *
           (lowest ? uniform : ProbabilityAt(Place{orders_.size() - 1, row.lower}, row.best));
  }
  // What follows h follows h′ too: one walk along both finds every probability below.
  size_t at =
      lowest ? 0 : static_cast<size_t>(orders_.back().rows[static_cast<size_t>(row.lower)].begin);
  for (size_t i = 0; i < tokens.size(); ++i) {
    double below = uniform;
    if (!lowest) {
      while (orders_.back().tokens[at] != tokens[i]) ++at;
      below = orders_.back().probabilities[at];
    }
    const double probability = (static_cast<double>(successors[i].count) + different * below) / all;
    order.probabilities.push_back(probability);
    if (probability > best || (probability == best && tokens[i] < row.best)) {
      best = probability;
      row.best = tokens[i];
    }
  }
}

NgramModel::Place NgramModel::Find(std::span<const int32_t> context) const {
  std::span<const int32_t> seen = Last(context, order() - 1);
  for (; !seen.empty(); seen = seen.subspan(1)) {
    const std::vector<uint64_t>& contexts = orders_[seen.size()].contexts;
    const uint64_t key = PackTokens(seen, bits_);
    const auto found = std::ranges::lower_bound(contexts, key);
    if (found != contexts.end() && *found == key) return {seen.size(), found - contexts.begin()};
  }
  return {0, 0};
}

double NgramModel::ProbabilityAt(Place place, int32_t token) const {
  double weight = 1;
  for (size_t index = place.order + 1; index-- > 0;) {
    const Order& order = orders_[index];
    const Row& row = order.rows[static_cast<size_t>(place.row)];
    const auto begin = order.tokens.begin() + row.begin,
               end = order.tokens.begin() + order.rows[static_cast<size_t>(place.row) + 1].begin;
    const auto found = std::lower_bound(begin, end, token);
    if (found != end && *found == token)
      return weight * order.probabilities[static_cast<size_t>(found - order.tokens.begin())];
    weight *= row.backoff;
    place.row = row.lower;
  }
  return weight / static_cast<double>(vocab_);
}

double NgramModel::Probability(std::span<const int32_t> context, int32_t token) const {
  return ProbabilityAt(Find(context), token);
}

int32_t NgramModel::Best(std::span<const int32_t> context) const {
  const Place place = Find(context);
  return orders_[place.order].rows[static_cast<size_t>(place.row)].best;
}

}  // namespace favor::reports
