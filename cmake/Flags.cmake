# mica_set_flags(target): warnings and code generation for C++ and CUDA, the same in every target.
set(mica_warnings -Wall -Wextra -Wshadow -Wunused -Wnon-virtual-dtor)
set(mica_codegen -fno-math-errno -fno-trapping-math)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND mica_codegen -march=x86-64-v3)
endif()

# MICA_HARDENED: what makes a fault harder to use for an attack. Protected stacks and jumps are compiled in; that all
# symbols are bound when a library is loaded, in memory that is read-only from then on, is linked in always.
# FORTIFY needs an optimising compiler. Sanitizers see more than these, so what MICA_SANITIZE is for goes without.
option(MICA_HARDENED "stack protector, FORTIFY and CET in all of mica's C++" ON)
set(mica_hardening)
if(MICA_HARDENED)
  set(mica_hardening -fstack-protector-strong)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    list(APPEND mica_hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND mica_hardening -fcf-protection=full)
  endif()
endif()

function(mica_set_flags target)
  target_link_options(${target} PRIVATE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
  list(JOIN mica_warnings "," warnings)
  list(JOIN mica_codegen "," codegen)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${mica_warnings};-Wold-style-cast;$<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option>;${mica_codegen};${mica_hardening}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;-Xcompiler=${warnings},${codegen}>")
  if(MICA_WERROR)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Werror>
      "$<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings;-Xcompiler=-Werror>")
  endif()
endfunction()

# mica_precompile(target header…): with MICA_PRECOMPILE, headers that most files of the target include.
function(mica_precompile target)
  if(MICA_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")  # a cache may have made it
    endif()
    # GCC 12 is mistaken about std::string, and in a precompiled header it says so.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>)
  endif()
endfunction()
