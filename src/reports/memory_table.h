// What each head of a model remembers.
#ifndef FAVOR_REPORTS_MEMORY_TABLE_H_
#define FAVOR_REPORTS_MEMORY_TABLE_H_

#include "models/heads.h"
#include "reports/table.h"

namespace favor::reports {

// One row per layer, one column per head: memory in tokens, "all" for heads that do not forget. No
// rows if no head forgets.
Table MemoryTable(const models::HeadMemories& memories);

}  // namespace favor::reports

#endif  // FAVOR_REPORTS_MEMORY_TABLE_H_
