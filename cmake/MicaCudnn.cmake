# Makes the target mica::cudnn if cuDNN 9 is found. Used by the build and by an installed static mica.
if(NOT TARGET mica::cudnn)
  find_path(CUDNN_INCLUDE_DIR cudnn_version.h
    HINTS ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9
    HINTS ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
  mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
  if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
    file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h cudnn_lines REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
    string(REGEX REPLACE "[^0-9;]" "" cudnn_numbers "${cudnn_lines}")
    string(REPLACE ";" "." CUDNN_VERSION "${cudnn_numbers}")
    add_library(mica::cudnn UNKNOWN IMPORTED)
    set_target_properties(mica::cudnn PROPERTIES
      IMPORTED_LOCATION ${CUDNN_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
  endif()
endif()
