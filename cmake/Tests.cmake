# One GoogleTest executable per folder of tests/, one Google Benchmark executable from bench/.
enable_testing()
find_package(GTest REQUIRED)

# What other frameworks computed lies in tests/golden, with the scripts that made it.
set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/unit/nn_layers_test.cpp
  ${PROJECT_SOURCE_DIR}/tests/unit/tree_test.cpp
  ${PROJECT_SOURCE_DIR}/tests/e2e/golden_test.cpp
  PROPERTIES COMPILE_DEFINITIONS MICA_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/tests/golden")
set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/unit/tensor_methods_test.cpp
  PROPERTIES COMPILE_DEFINITIONS MICA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

foreach(folder unit graph op_cases e2e)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*.cpp)
  if(NOT sources)
    continue()
  endif()
  set(name mica_test_${folder})
  add_executable(${name} ${sources})
  mica_set_flags(${name})
  mica_link_format(${name})
  target_compile_options(${name} PRIVATE -O1) # tests are compiled more often than they run
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE mica::mica GTest::gmock GTest::gtest)
  if(folder STREQUAL "unit")
    target_link_libraries(${name} PRIVATE OpenMP::OpenMP_CXX) # counts the threads of a kernel
  endif()
  mica_precompile(${name} <gmock/gmock.h> <gtest/gtest.h> <mica/mica.h>)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/tests/${folder}/main.cpp)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  if(TARGET mica_cuda)
    add_dependencies(${name} mica_cuda)
  endif()
  if(TARGET mica_tool)
    add_dependencies(${name} mica_tool)
  endif()
  add_test(NAME ${folder} COMMAND ${name})
  # The same programs on the other devices; without a GPU they say so, and their tests count as skipped.
  if(folder MATCHES "op_cases|e2e" AND TARGET mica_cuda)
    add_test(NAME ${folder}_cuda COMMAND ${name} --device cuda)
  elseif(folder STREQUAL "graph" AND TARGET mica_cuda)
    add_test(NAME ${folder}_cuda COMMAND ${name} --device cuda --gtest_filter=RandomGraphs.*)
  endif()
endforeach()

# A program that runs as several processes; tests/python/test_distributed.py starts it.
file(GLOB rank_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/distributed/*.cpp)
add_executable(mica_test_ranks ${rank_sources})
mica_set_flags(mica_test_ranks)
mica_link_format(mica_test_ranks)
target_compile_options(mica_test_ranks PRIVATE -O1)
target_include_directories(mica_test_ranks PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(mica_test_ranks PRIVATE mica::mica)

# The tests of several threads alone, which scripts/test --tsan builds: little else is compiled.
add_executable(mica_test_threads EXCLUDE_FROM_ALL
  ${PROJECT_SOURCE_DIR}/tests/unit/threads_test.cpp ${PROJECT_SOURCE_DIR}/tests/unit/threads_compiled_test.cpp
  ${PROJECT_SOURCE_DIR}/tests/unit/loader_test.cpp ${PROJECT_SOURCE_DIR}/tests/unit/parallel_test.cpp)
mica_set_flags(mica_test_threads)
mica_link_format(mica_test_threads)
target_include_directories(mica_test_threads PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(mica_test_threads PRIVATE mica::mica GTest::gmock GTest::gtest_main OpenMP::OpenMP_CXX)

# What tests of CUDA code open: the tests themselves link nothing of CUDA.
if(TARGET mica_cuda AND MICA_SHARED)
  add_library(mica_failing_launch MODULE ${PROJECT_SOURCE_DIR}/tests/cuda/failing_launch.cu)
  mica_set_flags(mica_failing_launch)
  mica_link_format(mica_failing_launch)
  set_target_properties(mica_failing_launch PROPERTIES PREFIX "" OUTPUT_NAME failing_launch
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_include_directories(mica_failing_launch SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS}
    $<TARGET_PROPERTY:mica::cudnn,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(mica_failing_launch PRIVATE mica_cuda CUDA::cudart_static)
  add_library(mica_compile_source MODULE ${PROJECT_SOURCE_DIR}/tests/cuda/compile_source.cpp)
  mica_set_flags(mica_compile_source)
  mica_link_format(mica_compile_source)
  set_target_properties(mica_compile_source PROPERTIES PREFIX "" OUTPUT_NAME compile_source
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_include_directories(mica_compile_source SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(mica_compile_source PRIVATE mica_cuda)
  add_library(mica_nvtx_listener MODULE ${PROJECT_SOURCE_DIR}/tests/cuda/nvtx_listener.cpp
    ${PROJECT_SOURCE_DIR}/src/runtime/cuda/nvtx.cpp)
  mica_set_flags(mica_nvtx_listener)
  set_target_properties(mica_nvtx_listener PROPERTIES PREFIX "" OUTPUT_NAME nvtx_listener
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_include_directories(mica_nvtx_listener PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(mica_nvtx_listener PRIVATE CUDA::nvtx3 ${CMAKE_DL_LIBS})
  add_dependencies(mica_test_unit mica_failing_launch mica_compile_source mica_nvtx_listener)
endif()

# Every example runs, on a small part of its data.
file(GLOB examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/cpp/*.cpp)
foreach(source ${examples})
  cmake_path(GET source STEM name)
  add_executable(example_${name} ${source})
  mica_set_flags(example_${name})
  target_link_libraries(example_${name} PRIVATE mica::mica)
  add_test(NAME example_${name} COMMAND example_${name} 1280)
endforeach()
add_test(NAME example_server_few COMMAND example_server 4)  # fewer requests than clients

# A program in C11, of c.h alone.
enable_language(C)
add_executable(mica_test_c ${PROJECT_SOURCE_DIR}/examples/c/tour.c)
set_target_properties(mica_test_c PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(mica_test_c PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
target_link_libraries(mica_test_c PRIVATE mica::mica m)
add_test(NAME c COMMAND mica_test_c ${PROJECT_BINARY_DIR}/c_tour.safetensors)

# The plugin, which tests of Python open; tests/install builds it as a project of its own.
if(MICA_SHARED)
  add_library(mica_plugin MODULE ${PROJECT_SOURCE_DIR}/examples/cpp/plugin/mish.cpp)
  mica_set_flags(mica_plugin)
  set_target_properties(mica_plugin PROPERTIES PREFIX "" OUTPUT_NAME mish
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_link_libraries(mica_plugin PRIVATE mica::mica)
endif()

# Without optimization inline functions stand in every file.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT MICA_SANITIZE)
  add_test(NAME avx512_symbols COMMAND_EXPAND_LISTS
    COMMAND ${PROJECT_SOURCE_DIR}/tests/avx512_symbols.sh $<FILTER:$<TARGET_OBJECTS:mica>,INCLUDE,cpu_avx512>)
endif()

# A report of made-up numbers, which tests/browser looks at.
foreach(page report profile)
  add_executable(mica_sample_${page} ${PROJECT_SOURCE_DIR}/tests/browser/sample_${page}.cpp)
  mica_set_flags(mica_sample_${page})
  mica_link_format(mica_sample_${page})
  target_link_libraries(mica_sample_${page} PRIVATE mica::mica)
  target_include_directories(mica_sample_${page} PRIVATE ${PROJECT_SOURCE_DIR})
endforeach()

file(GLOB mica_bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.cpp)
if(NOT mica_with_onednn)
  list(FILTER mica_bench_sources EXCLUDE REGEX "onednn")
endif()
find_package(benchmark QUIET)
if(mica_bench_sources AND benchmark_FOUND)
  add_executable(mica_bench ${mica_bench_sources})
  mica_set_flags(mica_bench)
  mica_link_format(mica_bench)
  target_include_directories(mica_bench PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(mica_bench PRIVATE mica::mica benchmark::benchmark $<TARGET_NAME_IF_EXISTS:DNNL::dnnl>)
  if(TARGET mica_cuda)
    add_dependencies(mica_bench mica_cuda)
  endif()
endif()
