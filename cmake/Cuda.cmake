# Decides whether libmica_cuda is built. With MICA_CUDA=OFF nothing of CUDA is looked for.
set(mica_with_cuda OFF)
if(MICA_CUDA STREQUAL "OFF")
  set(mica_cuda_why "MICA_CUDA=OFF")
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  set(mica_cuda_why "no CUDA compiler found (nvcc on PATH, or set CMAKE_CUDA_COMPILER)")
else()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "CUDA architectures, e.g. 80;90;native")
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # CMake 3.25.1 does not know that nvcc takes C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_package(CUDAToolkit REQUIRED)
  include(${CMAKE_CURRENT_LIST_DIR}/MicaCudnn.cmake)

  file(GLOB mica_site_packages ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages)
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
    HINTS ${mica_site_packages} PATH_SUFFIXES include
    DOC "The folder that holds cudnn_frontend.h")

  if(NOT TARGET mica::cudnn)
    set(mica_cuda_why "nvcc ${CMAKE_CUDA_COMPILER_VERSION} found, but not cudnn.h with libcudnn (set CUDNN_ROOT)")
  elseif(NOT CUDNN_FRONTEND_INCLUDE_DIR)
    set(mica_cuda_why "cudnn_frontend.h not found (scripts/setup fetches it, or set CUDNN_FRONTEND_INCLUDE_DIR)")
  else()
    set(mica_with_cuda ON)
    set(mica_cuda_why "nvcc ${CMAKE_CUDA_COMPILER_VERSION}, cuDNN ${CUDNN_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  endif()
endif()

if(MICA_CUDA STREQUAL "ON" AND NOT mica_with_cuda)
  message(FATAL_ERROR "MICA_CUDA=ON, but ${mica_cuda_why}")
endif()
