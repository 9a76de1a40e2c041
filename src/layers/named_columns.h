// Columns of rows that are a thing of their own, with others at their side.
#ifndef FAVOR_LAYERS_NAMED_COLUMNS_H_
#define FAVOR_LAYERS_NAMED_COLUMNS_H_

#include <cstdint>
#include <string>

namespace favor::layers {

struct NamedColumns {
  std::string name;  // of their parameters, or of their tensor in a file
  int64_t columns;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_NAMED_COLUMNS_H_
