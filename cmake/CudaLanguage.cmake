# Whether kernels of ours can be compiled: a toolkit of CUDA 11.8 or newer. TRIMTAB_CUDA_KERNELS says so. Machine code for sm_80
# and sm_90, and PTX for what is newer.
set(TRIMTAB_CUDA_KERNELS OFF)
if(TRIMTAB_CUDA AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 11.8 AND NOT TRIMTAB_SANITIZE)
  include(CheckLanguage)
  # By the environment: check_language tries out only what it finds itself.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
    set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPU architectures")
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)
    set(TRIMTAB_CUDA_KERNELS ON)
  endif()
endif()
message(STATUS "CUDA kernels: ${TRIMTAB_CUDA_KERNELS}")
