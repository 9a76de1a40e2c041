// What commands read and write: arrays, output files checked before the work, JSON on stdout.
#ifndef FAVOR_CLI_FILES_H_
#define FAVOR_CLI_FILES_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/json_fwd.h"
#include "favor/tensor.h"

namespace favor::cli {

// An array of finite numbers from a file, [L, d], [H, L, d] or [B, H, L, d].
Tensor ReadRows(const std::string& path);
// The same for keys or values. If some are masked, they may be anything: the call that takes them
// checks the others.
Tensor ReadMaskedRows(const std::string& path, bool masked);
int64_t Heads(const Shape& shape);  // number of heads of such an array

// Throws, before any work is done, if an output could not be written later, or is also another
// output or an input. Empty paths are options that were not given.
void CheckFiles(std::string_view who, const std::vector<std::string>& outputs,
                const std::vector<std::string>& inputs);

void PrintJson(const Json& value);

}  // namespace favor::cli

#endif  // FAVOR_CLI_FILES_H_
