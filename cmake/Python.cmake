# The extension mica._mica. In the build tree python/mica/ holds it beside links to the package's own
# files, so PYTHONPATH=<build>/python is the package as it will be installed.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
if(NOT TARGET Python::SABIModule)
  # CMake 3.25 does not make this target yet. nanobind takes it as the sign that a stable-ABI extension can be
  # built, which it does for CPython 3.12 and later; nothing need be linked for it here.
  add_library(Python::SABIModule INTERFACE IMPORTED)
endif()
if(NOT nanobind_DIR)
  file(GLOB nanobind_hints ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nanobind/cmake)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_own OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(nanobind CONFIG REQUIRED HINTS ${nanobind_own} ${nanobind_hints})

file(GLOB mica_python_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.cpp)
if(NOT mica_python_sources)
  message(STATUS "mica: no file in python/src, so no Python extension")
  return()
endif()
nanobind_add_module(_mica STABLE_ABI NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS ${mica_python_sources}
  ${PROJECT_SOURCE_DIR}/src/core/exit.cpp)
mica_set_flags(_mica)
mica_link_format(_mica)
# GCC 12 is mistaken about std::optional in nanobind's argument tuples.
target_compile_options(_mica PRIVATE -Wno-maybe-uninitialized)
# What mostly describes classes, and what is called once per step or less, compiles in 70 % of the time this way.
set(mica_describing ${mica_python_sources})
list(FILTER mica_describing INCLUDE REGEX
  "/(amp|cuda|data|datasets|distributed|inference|init|io|kernels|layers.*|.*models|nn|onnx.*|optim|profiler|schedules|settings|sparse|streams|text|train|transforms|types|user_ops)\\.cpp$")
set_source_files_properties(${mica_describing} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
target_include_directories(_mica PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(_mica PRIVATE MICA_VERSION="${PROJECT_VERSION}")
target_link_libraries(_mica PRIVATE mica::mica)
# See python/src/exit.cpp and lengths.cpp.
foreach(function PyEval_SaveThread PyEval_RestoreThread PyGILState_Ensure PyObject_Vectorcall PyObject_VectorcallMethod PyObject_GetItem
    PyObject_GetAttr PySequence_Size __cxa_atexit)
  target_link_options(_mica PRIVATE LINKER:--wrap=${function})
endforeach()
mica_precompile(_mica ${PROJECT_SOURCE_DIR}/python/src/bindings.h)
set_target_properties(_mica PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/mica
  INSTALL_RPATH "$ORIGIN;$ORIGIN/../../${CMAKE_INSTALL_LIBDIR}")  # in a wheel, in the build tree
if(TARGET mica_cuda)
  add_dependencies(_mica mica_cuda)
endif()

file(GLOB_RECURSE mica_python_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python/mica
  ${PROJECT_SOURCE_DIR}/python/mica/*.py ${PROJECT_SOURCE_DIR}/python/mica/*.pyi ${PROJECT_SOURCE_DIR}/python/mica/py.typed)
foreach(file ${mica_python_files})
  get_filename_component(folder ${PROJECT_BINARY_DIR}/python/mica/${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python/mica/${file} ${PROJECT_BINARY_DIR}/python/mica/${file} SYMBOLIC)
endforeach()

# Type stubs, from the signatures of the built extension.
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/python/mica/__init__.pyi
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/stubs.py ${NB_DIR} ${PROJECT_BINARY_DIR}/python/mica
  DEPENDS _mica ${PROJECT_SOURCE_DIR}/python/stubs.py ${PROJECT_SOURCE_DIR}/python/mica/__init__.py
  VERBATIM)
add_custom_target(mica_stubs ALL DEPENDS ${PROJECT_BINARY_DIR}/python/mica/__init__.pyi)

# What a wheel takes: the extension with the libraries beside it, the stubs, and the command, which
# `python -m mica` runs. scikit-build-core adds the Python files.
set(in_wheel COMPONENT python)
if(NOT MICA_WHEEL)
  list(APPEND in_wheel EXCLUDE_FROM_ALL)
endif()
install(TARGETS _mica LIBRARY DESTINATION mica ${in_wheel})
install(DIRECTORY ${PROJECT_BINARY_DIR}/python/mica/ DESTINATION mica ${in_wheel} FILES_MATCHING PATTERN "*.pyi")
if(MICA_SHARED)
  install(TARGETS ${mica_libraries} LIBRARY DESTINATION mica ${in_wheel})
endif()
if(TARGET mica_tool)
  install(TARGETS mica_tool RUNTIME DESTINATION mica/bin ${in_wheel})
  set_property(TARGET mica_tool APPEND PROPERTY INSTALL_RPATH "$ORIGIN/..")
endif()
