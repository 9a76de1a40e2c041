// The text of a wgmma of 64 rows and 64 columns: its 32 accumulators, x[8][4], are operands 0 to
// 31, and p is the operand that says whether to add to them. The operands to multiply follow.
#ifndef FAVOR_KERNELS_CUDA_PARTS_WGMMA_TEXT_H_
#define FAVOR_KERNELS_CUDA_PARTS_WGMMA_TEXT_H_

#define FAVOR_WGMMA_SUMS                                                                        \
  "+f"(x[0][0]), "+f"(x[0][1]), "+f"(x[0][2]), "+f"(x[0][3]), "+f"(x[1][0]), "+f"(x[1][1]),     \
      "+f"(x[1][2]), "+f"(x[1][3]), "+f"(x[2][0]), "+f"(x[2][1]), "+f"(x[2][2]), "+f"(x[2][3]), \
      "+f"(x[3][0]), "+f"(x[3][1]), "+f"(x[3][2]), "+f"(x[3][3]), "+f"(x[4][0]), "+f"(x[4][1]), \
      "+f"(x[4][2]), "+f"(x[4][3]), "+f"(x[5][0]), "+f"(x[5][1]), "+f"(x[5][2]), "+f"(x[5][3]), \
      "+f"(x[6][0]), "+f"(x[6][1]), "+f"(x[6][2]), "+f"(x[6][3]), "+f"(x[7][0]), "+f"(x[7][1]), \
      "+f"(x[7][2]), "+f"(x[7][3])
#define FAVOR_WGMMA_TEXT(type, p)                                                           \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " p                                                     \
  ", 0;\n"                                                                                  \
  "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                               \
  " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "

#endif  // FAVOR_KERNELS_CUDA_PARTS_WGMMA_TEXT_H_
