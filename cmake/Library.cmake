# libmica from src/**, and libmica_cuda from the CUDA files that stand beside them in each op's room.
# Files are found by name, so that a new operator changes no CMake file.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

file(GLOB_RECURSE mica_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
file(GLOB_RECURSE mica_cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cu)
set(mica_cuda_pattern "(/cuda_[^/]*|_cuda|/src/runtime/cuda/.*)\\.cpp$")
set(mica_cuda_host_sources ${mica_sources})
list(FILTER mica_cuda_host_sources INCLUDE REGEX ${mica_cuda_pattern})
list(FILTER mica_sources EXCLUDE REGEX ${mica_cuda_pattern})
if(NOT mica_with_onednn)
  list(FILTER mica_sources EXCLUDE REGEX "/cpu_onednn[^/]*\\.cpp$")
endif()
foreach(format png jpeg)
  if(mica_with_${format})
    list(FILTER mica_sources EXCLUDE REGEX "/io/${format}_missing\\.cpp$")
  else()
    list(FILTER mica_sources EXCLUDE REGEX "/io/${format}\\.cpp$")
  endif()
endforeach()

# The start-up check must run on a processor that the rest of the library is too new for.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/runtime/cpu/cpu_check.cpp
  PROPERTIES COMPILE_OPTIONS "$<$<BOOL:${mica_codegen}>:-march=x86-64>")

# Files that are chosen at run time on processors with AVX-512. GCC 12 warns of its own header there.
set(mica_avx512_sources ${mica_sources})
list(FILTER mica_avx512_sources INCLUDE REGEX "/cpu_avx512\\.cpp$")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${mica_avx512_sources}
    PROPERTIES COMPILE_OPTIONS "-march=x86-64-v4;-Wno-uninitialized;-Wno-maybe-uninitialized")
else()
  list(REMOVE_ITEM mica_sources ${mica_avx512_sources})
endif()

# What builds networks, reads or writes about them, or lists functions, calls kernels and has none: it compiles in two thirds
# of the time at -O1, and in a wheel it is compiled for size, to half the code. GCC then takes variables for uninitialized
# that it sees set where it inlines more.
set(mica_calling_sources ${mica_sources})
list(FILTER mica_calling_sources INCLUDE REGEX "/src/(distributed|io|models|onnx|profile|train)/|/functions\\.cpp$")
list(FILTER mica_calling_sources EXCLUDE REGEX "/profile/(kind|memory_watch|recorder)\\.cpp$")  # called for every op
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT MICA_SANITIZE)
  set_source_files_properties(${mica_calling_sources} PROPERTIES
    COMPILE_OPTIONS "$<IF:$<BOOL:${MICA_WHEEL}>,-Os,-O1>;-Wno-maybe-uninitialized"
    SKIP_PRECOMPILE_HEADERS ${MICA_WHEEL})
endif()

# The pages of reports and profiles are files that a browser can show; they are compiled in as strings.
set(report_page ${PROJECT_SOURCE_DIR}/src/io/report.html)
set(profile_page ${PROJECT_SOURCE_DIR}/src/profile/page.html)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${report_page} ${profile_page})
file(READ ${report_page} report_html)
file(READ ${profile_page} profile_html)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/embedded/report_page.h @ONLY CONTENT
  "inline constexpr char kReportPage[] = R\"html(@report_html@)html\";\n")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/embedded/profile_page.h @ONLY CONTENT
  "inline constexpr char kProfilePage[] = R\"html(@profile_html@)html\";\n")
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/io/report.cpp ${PROJECT_SOURCE_DIR}/src/profile/page.cpp
  PROPERTIES INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/embedded)

# The functors of elementwise ops, and the kernels that carry programs of them, as source for kernels that are
# compiled when a program runs.
file(GLOB functor_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src
  ${PROJECT_SOURCE_DIR}/src/ops/*/functor_params.h ${PROJECT_SOURCE_DIR}/src/ops/*/functors.h)
set(carrying_headers
  core/philox.h
  ops/attention/cuda_terms.cuh
  ops/attention/cuda_terms.h
  ops/attention/cuda_wgmma.cuh
  ops/attention/cuda_wgmma.h
  ops/attention/geometry.h
  ops/conv2d/cuda_forward_plan.h
  ops/conv2d/cuda_implicit_dgrad.cuh
  ops/conv2d/cuda_implicit_gemm.cuh
  ops/conv2d_batch_norm/cuda_columns.cuh
  ops/fused/few_digits.h
  ops/layer_norm/cuda_row_norm.cuh
  ops/matmul/cuda_direct.cuh
  ops/matmul/cuda_few_rows.cuh
  ops/matmul/cuda_few_rows.h
  ops/matmul/cuda_small.cuh
  ops/matmul/cuda_small_product.h
  ops/matmul/cuda_split_k.cuh
  ops/matmul/cuda_thin.cuh
  ops/matmul/cuda_wgmma.cuh
  runtime/cuda/async_copy.cuh
  runtime/cuda/basics.cuh
  runtime/cuda/cluster.cuh
  runtime/cuda/rtc.cuh
  runtime/cuda/tf32.cuh
  runtime/cuda/wgmma.cuh)
set(embedded_headers "")
foreach(header runtime/portable.h ops/elementwise/math.h ops/fused/device.h ${functor_headers} ${carrying_headers})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${header})
  file(READ ${PROJECT_SOURCE_DIR}/src/${header} text)
  string(APPEND embedded_headers "  EmbeddedHeader{\"mica/${header}\", R\"header(${text})header\"},\n")
endforeach()
foreach(name cstdint cuda_runtime.h mica/runtime/cuda/types.cuh mica/runtime/cuda/programmatic_launch.cuh)
  string(APPEND embedded_headers
    "  EmbeddedHeader{\"${name}\", \"#include \\\"mica/runtime/cuda/rtc.cuh\\\"\\n\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/embedded/functor_headers.h @ONLY CONTENT
  "static constexpr EmbeddedHeader kHeaders[] = {\n@embedded_headers@};\n")
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/ops/fused/embedded.cpp
  PROPERTIES INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/embedded)

if(MICA_SHARED)
  set(mica_library_kind SHARED)
else()
  set(mica_library_kind STATIC)
endif()

function(mica_exports target)
  if(MICA_SHARED AND NOT MICA_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  endif()
endfunction()

add_library(mica ${mica_library_kind} ${mica_sources})
add_library(mica::mica ALIAS mica)
mica_set_flags(mica)
if(MICA_SHARED AND NOT MICA_WHEEL)  # a wheel holds no links
  set_target_properties(mica PROPERTIES VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()
if(MICA_SHARED)
  target_link_options(mica PRIVATE LINKER:--wrap=__cxa_atexit)  # see src/core/exit.cpp
  # The library calls its own functions directly: an eager call is 6 % faster.
  target_link_options(mica PRIVATE LINKER:-Bsymbolic-functions)
  target_link_options(mica PRIVATE LINKER:--gc-sections)  # what nobody calls of a static oneDNN
  mica_exports(mica)
else()
  # Nor does a program's own shared library that holds a static mica export it.
  target_link_options(mica INTERFACE LINKER:--exclude-libs,libmica.a:libmica_cuda.a)
endif()
if(MICA_SANITIZE)
  # The library alone: scripts/test runs a release build's test programs with it. It keeps to its own copies of inline
  # functions, which those have without instrumentation. Accesses by null pointers, which are
  # left in, and beyond objects are AddressSanitizer's to see: no code that looks for them a second time is compiled in.
  # Types of objects are not compared, since those programs have type information of their own; and numbers that no
  # integer holds are converted as the processor does it.
  target_compile_options(mica PRIVATE -O1 -g1 -fno-omit-frame-pointer -Wno-maybe-uninitialized
    SHELL:-U_FORTIFY_SOURCE -fno-stack-protector -fcf-protection=none
    -fsanitize=${MICA_SANITIZE} -fno-sanitize=null,object-size,vptr,float-cast-overflow -fno-delete-null-pointer-checks
    -fno-sanitize-recover=all)
  target_link_options(mica PUBLIC -fsanitize=${MICA_SANITIZE})
endif()
set(mica_precompiled <algorithm> <cmath> <functional> <map> <memory> <optional> <span> <string> <vector>
  <mica/core/check.h> <mica/core/tensor.h> <mica/op/dispatch.h> <mica/op/kernel.h>)
mica_precompile(mica ${mica_precompiled})
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/runtime/cpu/cpu_check.cpp ${mica_avx512_sources}
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)  # their flags are others
target_compile_features(mica PUBLIC cxx_std_20)
target_include_directories(mica PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_definitions(mica PRIVATE MICA_VERSION="${PROJECT_VERSION}")
# {fmt} is compiled into src/core/format.cpp, so an installed mica does not need it. A shared libmica keeps it to itself: what
# else is built here and uses {fmt} has that object too (mica_link_format).
if(MICA_SHARED)
  add_library(mica_format OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/core/format.cpp)
  mica_set_flags(mica_format)
endif()
function(mica_link_format target)
  if(MICA_SHARED)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:mica_format>)
  endif()
endfunction()
target_link_libraries(mica PRIVATE OpenMP::OpenMP_CXX Threads::Threads ZLIB::ZLIB ${CMAKE_DL_LIBS}
  $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)  # headers only, and in no header of ours
if(mica_with_png)
  target_link_libraries(mica PRIVATE PNG::PNG)
endif()
if(mica_with_jpeg)
  target_link_libraries(mica PRIVATE JPEG::JPEG)
endif()
find_library(mica_mvec mvec)
if(mica_mvec)
  target_link_libraries(mica PRIVATE mvec)  # glibc's vector mathematics, on the processors it has it for
endif()
if(mica_with_onednn)
  # On the one file that asks: the others then compile alike with and without, and a cache serves both.
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/ops/all_ops.cpp APPEND PROPERTY COMPILE_DEFINITIONS MICA_HAVE_ONEDNN=1)
  target_link_libraries(mica PRIVATE DNNL::dnnl)
endif()
set(mica_libraries mica)

if(mica_with_cuda)
  add_library(mica_cuda ${mica_library_kind} ${mica_cuda_sources} ${mica_cuda_host_sources})
  add_library(mica::mica_cuda ALIAS mica_cuda)
  mica_exports(mica_cuda)
  mica_set_flags(mica_cuda)
  if(MICA_WHEEL)  # where PyPI's packages have CUDA's libraries
    set_target_properties(mica_cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH OFF
      INSTALL_RPATH "$ORIGIN;$ORIGIN/../nvidia/cu13/lib;$ORIGIN/../nvidia/cudnn/lib;$ORIGIN/../nvidia/nccl/lib")
  endif()
  mica_link_format(mica_cuda)
  mica_precompile(mica_cuda ${mica_precompiled})
  # The front end's templates take half a minute to optimise, and what they make runs once per plan.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/ops/conv/cuda_plans.cpp
    ${PROJECT_SOURCE_DIR}/src/ops/attention/cuda_cudnn.cpp PROPERTIES COMPILE_OPTIONS -O1)
  target_include_directories(mica_cuda SYSTEM PRIVATE ${CUDNN_FRONTEND_INCLUDE_DIR})
  if(CUDAToolkit_CUPTI_INCLUDE_DIR)  # some toolkits keep its headers in a folder of their own
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/runtime/cuda/cupti.cpp
      ${PROJECT_SOURCE_DIR}/src/runtime/cuda/tracer.cpp PROPERTIES COMPILE_OPTIONS -isystem${CUDAToolkit_CUPTI_INCLUDE_DIR})
  endif()
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^([0-9]+[a-z]?)(-real)?$" "sm_\\1" OUTPUT_VARIABLE architectures)
  list(TRANSFORM architectures REPLACE "^([0-9]+[a-z]?)-virtual$" "compute_\\1")
  list(JOIN architectures ", " architectures)
  if(CMAKE_CUDA_ARCHITECTURES MATCHES "[0-9][a-z]?(;|$)|virtual")
    string(APPEND architectures " and PTX for newer ones")
  endif()
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/runtime/cuda/library.cpp ${PROJECT_SOURCE_DIR}/src/runtime/cuda/check.cpp
    APPEND PROPERTY COMPILE_DEFINITIONS "MICA_CUDA_ARCHITECTURES=\"${architectures}\"")
  target_link_libraries(mica_cuda
    PUBLIC mica
    PRIVATE $<BUILD_INTERFACE:CUDA::nvtx3> Threads::Threads
      CUDA::cudart_static CUDA::cublasLt CUDA::nvrtc mica::cudnn ${CMAKE_DL_LIBS})
  list(APPEND mica_libraries mica_cuda)
  if(NOT MICA_SHARED)
    # A shared libmica opens libmica_cuda when a CUDA device is first asked for; a static one holds it.
    set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/runtime/loader.cpp APPEND PROPERTY COMPILE_DEFINITIONS MICA_STATIC_CUDA=1)
    target_link_libraries(mica PRIVATE mica_cuda)
  endif()
endif()
# Shared and static builds compile the same objects, so a compiler cache serves both.
set_target_properties(${mica_libraries} PROPERTIES DEFINE_SYMBOL "")
