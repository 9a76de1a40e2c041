# favor_compile_options(<target>): the warnings and floating-point rules of every target of favor.
# Fields left out of a designated initialiser keep their defaults on purpose.
# Vectors wider than a register are passed inside one translation unit only (psabi).
# -ffp-contract=off: a product and a sum stay two roundings, so results do not depend on the compiler's taste.
function(favor_compile_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion
      -Wno-missing-field-initializers -Wno-psabi -ffp-contract=off>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${FAVOR_WERROR}>>:-Werror>)
endfunction()
