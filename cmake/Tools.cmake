# The mica command.
file(GLOB mica_tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/mica/*.cpp)
if(NOT mica_tool_sources)
  return()
endif()
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

add_executable(mica_tool ${mica_tool_sources})
set_target_properties(mica_tool PROPERTIES OUTPUT_NAME mica)
mica_set_flags(mica_tool)
mica_link_format(mica_tool)
target_compile_options(mica_tool PRIVATE -O1)  # it parses arguments and calls the library
target_include_directories(mica_tool PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(mica_tool PRIVATE
  mica::mica CLI11::CLI11 nlohmann_json::nlohmann_json)
mica_precompile(mica_tool <CLI/CLI.hpp> <fmt/core.h> <nlohmann/json.hpp> <mica/mica.h>)
if(TARGET mica_cuda)
  add_dependencies(mica_tool mica_cuda)
endif()
