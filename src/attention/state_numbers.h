// The numbers of a state that change with its tokens, as tensors of a safetensors file:
//   c F64 [B, H, width], s F64 [B, H, width, value_dim], z F64 [B, H, width], tokens I64 [B, H]
// and, if the state forgets, log_decay F64 [B, H].
#ifndef FAVOR_ATTENTION_STATE_NUMBERS_H_
#define FAVOR_ATTENTION_STATE_NUMBERS_H_

#include <string>

#include "attention/state_data.h"
#include "io/safetensors.h"

namespace favor::attention {

// Adds the tensors to the file; their names begin with `prefix`.
void StoreState(const State& state, const std::string& prefix, io::Safetensors& file);

// Reads the tensors into a state of the same sizes on the CPU. Throws kInvalidData for tensors of
// another shape and numbers that no state can have; `who` names the file.
void LoadState(const io::Safetensors& file, const std::string& prefix, const std::string& who,
               State& state);

// The same of the state in a cache that has moved `tokens` tokens into it.
void LoadPrefix(const io::Safetensors& file, const std::string& prefix, int64_t tokens,
                const std::string& who, State& state);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_STATE_NUMBERS_H_
