# An installed mica: public headers, libraries, the command, docs and examples, find_package(mica) and pkg-config.
include(CMakePackageConfigHelpers)
include(${CMAKE_CURRENT_LIST_DIR}/PublicHeaders.cmake)
set(mica_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mica)

# The headers at the top of src/ have what programs use; an operator of one's own needs what op/ says of operators.
file(GLOB mica_top_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/*.h)
mica_public_headers(mica_headers ${mica_top_headers} op/dispatch.h op/function.h op/kernel.h op/op_def.h op/params.h)
foreach(header IN LISTS mica_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mica/${folder} COMPONENT mica)
endforeach()
# The pages keep their places beside each other, so that their links and pictures are found.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT mica
  FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.cpp" PATTERN "*.c" PATTERN "*.rs" PATTERN "*.cu" PATTERN "*.txt"
  PATTERN "*.py" PATTERN "*.ipynb" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/results DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench COMPONENT mica
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT mica)

# A shared libmica_cuda has a file of its own, so that a package from which it was left out is still one. Static libraries
# need each other, and each other's targets.
install(TARGETS mica EXPORT micaTargets COMPONENT mica)
if(TARGET mica_cuda AND MICA_SHARED)
  install(TARGETS mica_cuda EXPORT micaCudaTargets COMPONENT mica)
  install(EXPORT micaCudaTargets NAMESPACE mica:: DESTINATION ${mica_package_dir} COMPONENT mica)
elseif(TARGET mica_cuda)
  install(TARGETS mica_cuda EXPORT micaTargets COMPONENT mica)
endif()
install(EXPORT micaTargets NAMESPACE mica:: DESTINATION ${mica_package_dir} COMPONENT mica)
if(TARGET mica_tool)
  install(TARGETS mica_tool COMPONENT mica)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/micaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/micaConfig.cmake INSTALL_DESTINATION ${mica_package_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/micaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/micaConfig.cmake ${PROJECT_BINARY_DIR}/micaConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/MicaCudnn.cmake
  DESTINATION ${mica_package_dir} COMPONENT mica)

# Found from where it lies, so that an installed folder can be moved.
file(RELATIVE_PATH mica_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" mica_pc_prefix "${mica_pc_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/mica.pc.in ${PROJECT_BINARY_DIR}/mica.pc @ONLY)
if(MICA_SHARED)
  install(FILES ${PROJECT_BINARY_DIR}/mica.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT mica)
endif()
