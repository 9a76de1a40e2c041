# favor_compile_options(<target>): the warnings and floating-point rules of every target of favor.
# Fields left out of a designated initialiser keep their defaults on purpose.
# Vectors wider than a register are passed inside one translation unit only (psabi).
# -ffp-contract=off: a product and a sum stay two roundings, so results do not depend on the compiler's taste.
# -fno-math-errno: nobody reads errno, and loops over elementary functions become SIMD code.
# SIMD targets are AVX-512, AVX2, SSE4 and NEON; the others would add compile time for little. With
# FAVOR_FEW_SIMD_TARGETS, AVX2 or NEON and plain code alone: sanitizers and fuzzing take half the compile time.
function(favor_compile_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion
      -Wno-missing-field-initializers -Wno-psabi -ffp-contract=off -fno-math-errno>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${FAVOR_WERROR}>>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${FAVOR_WERROR}>>:-Werror=all-warnings>)
  set(disabled "HWY_SSSE3|HWY_AVX3_DL|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128")
  if(FAVOR_FEW_SIMD_TARGETS)
    string(APPEND disabled "|HWY_AVX3|HWY_SSE4")
  endif()
  target_compile_definitions(${target} PRIVATE "HWY_DISABLED_TARGETS=(${disabled})")
endfunction()
