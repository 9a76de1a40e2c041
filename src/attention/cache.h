// What a kind of attention keeps of the tokens that a causal model has read, so that the next ones
// can attend to them: the prefix state (linear attention; its size does not depend on the number of
// tokens), keys and values (exact), sums of values (uniform).
#ifndef FAVOR_ATTENTION_CACHE_H_
#define FAVOR_ATTENTION_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tally.h"
#include "favor/attention.h"
#include "io/safetensors.h"
#include "kernels/attention_problem.h"

namespace favor::attention {

struct CacheShape {
  int64_t batch = 1, heads = 1, kv_heads = 1, dim = 1, value_dim = 1;
  bool forgets = false;
  DataType type = DataType::kF32;  // of queries, keys and values
  Device device = {};              // where they are

  CacheShape Times(int64_t times) const {  // with more sequences
    CacheShape more = *this;
    more.batch *= times;
    return more;
  }
  // The causal problem of the new tokens, without the prefix.
  kernels::AttentionProblem Problem(const AttentionInputs& inputs, double scale = 1) const;
};

class Cache {
 public:
  virtual ~Cache() = default;
  // Its sequences `times` times, one behind the other, to continue from one prefix in several ways.
  virtual std::unique_ptr<Cache> Fork(int64_t times) const = 0;

  // q [batch, heads, length, dim], k and v [batch, kv_heads, length, ..], out like q: each row
  // attends to the prefix and to rows up to itself; then the rows become part of the prefix.
  // log_decay [batch, heads, length] if the shape says that heads forget. Unusable rows are counted
  // in the tally; then the cache is as before, or lost if it is on a GPU, where the host does not
  // wait to know.
  virtual void Attend(const AttentionInputs& inputs, const ConstView& log_decay, View out,
                      TallyEntry* tally, const Context& context) = 0;

  // Whether Attend for so many tokens as before finds all that is kept where it was. What it queues
  // on a GPU may then be recorded and run again for other tokens; the host calls Advance for these.
  virtual bool StaysInPlace() const { return false; }
  virtual void Advance(int64_t) {}

  virtual int64_t Bytes() const = 0;  // size of what changes with the tokens

  // Adds tensors whose names begin with `prefix` to the file.
  virtual void Store(const std::string& prefix, io::Safetensors& file) const = 0;
  // Restores a cache that has read `tokens` tokens. Throws kInvalidData if the file's tensors do
  // not fit; `who` names the file.
  virtual void Load(const std::string& prefix, const io::Safetensors& file, int64_t tokens,
                    const std::string& who) = 0;
};

// Reads numbers from a file; throws kInvalidData unless they have the expected shape and are
// finite.
template <class T>
std::vector<T> LoadNumbers(const io::Safetensors& file, const std::string& name,
                           const std::vector<int64_t>& shape, const std::string& who);
extern template std::vector<float> LoadNumbers(const io::Safetensors&, const std::string&,
                                               const std::vector<int64_t>&, const std::string&);
extern template std::vector<double> LoadNumbers(const io::Safetensors&, const std::string&,
                                                const std::vector<int64_t>&, const std::string&);

// Adds rows of any type and device to a file, as F32 of a shape with as many elements.
void StoreRows(const ConstView& rows, const std::string& name, const std::vector<int64_t>& shape,
               io::Safetensors& file);
// Reads them back, to contiguous rows of any type and device. Throws as LoadNumbers does.
void LoadRows(const io::Safetensors& file, const std::string& name,
              const std::vector<int64_t>& shape, const std::string& who, const View& rows);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_CACHE_H_
