# An installed mica: headers, libraries, the command, and find_package(mica).
include(CMakePackageConfigHelpers)
set(mica_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mica)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mica
  COMPONENT mica FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
install(TARGETS ${mica_libraries} EXPORT micaTargets COMPONENT mica)
if(TARGET mica_tool)
  install(TARGETS mica_tool COMPONENT mica)
endif()
install(EXPORT micaTargets NAMESPACE mica:: DESTINATION ${mica_package_dir} COMPONENT mica)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/micaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/micaConfig.cmake INSTALL_DESTINATION ${mica_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/micaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/micaConfig.cmake ${PROJECT_BINARY_DIR}/micaConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/MicaCudnn.cmake
  DESTINATION ${mica_package_dir} COMPONENT mica)
