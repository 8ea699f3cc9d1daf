# What every target is compiled with, and the libraries that come from the system.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# Assertions stay on in every configuration: `ensure` and the library's own checks.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")

# g++ looks for what it no longer needs again and again, through all of a precompiled header: a tenth to a
# fifth of its time. It does not where there is memory (100 MB more for a file).
cmake_host_system_information(RESULT memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND memory_mb GREATER 7500 AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  string(APPEND CMAKE_CXX_FLAGS " --param=ggc-min-heapsize=1000000")
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # A precompiled header has its own time stamps; ccache is told to look at contents instead, and that
  # another clone of the same is the same.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)

add_library(warren_flags INTERFACE)
# -Wmismatched-new-delete: g++ 12 sees through one half of how Asio allocates coroutine frames.
target_compile_options(warren_flags INTERFACE -Wall -Wextra -Wpedantic -Werror -Wshadow
                       -Wnon-virtual-dtor -Woverloaded-virtual
                       $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess -Wno-mismatched-new-delete>
  # For clang-tidy: __COUNTER__ in doctest's macros is older than the standard that will have it.
  $<$<BOOL:${CMAKE_DISABLE_PRECOMPILE_HEADERS}>:-Wno-unknown-warning-option;-Wno-c2y-extensions>)
target_compile_definitions(warren_flags INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_BEAST_SEPARATE_COMPILATION
  SPDLOG_FMT_EXTERNAL)
# The root is where batches (WarrenModule.cmake) find their files.
target_include_directories(warren_flags INTERFACE
  ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated ${CMAKE_SOURCE_DIR})
target_compile_options(warren_flags INTERFACE -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
target_link_libraries(warren_flags INTERFACE Boost::headers fmt::fmt Threads::Threads)

# Debian's g++ makes position independent programs by itself; tests/e2e/hardened looks at what came of it.
target_link_options(warren_flags INTERFACE -Wl,-z,relro,-z,now)

find_program(MOLD mold)
if(MOLD)
  target_link_options(warren_flags INTERFACE -fuse-ld=mold)
endif()

# Instrumented code makes g++ see uses of what a std::expected does not hold; the release build,
# where that warning stays on, judges the same lines without them.
set(WARREN_SANITIZE "" CACHE STRING "address or thread")
if(WARREN_SANITIZE)
  target_compile_options(warren_flags INTERFACE -fno-omit-frame-pointer -Wno-maybe-uninitialized)
endif()
if(WARREN_SANITIZE STREQUAL "address")
  # Without the checks of every access that a third of the build was spent on. ASan sees what the
  # first two see, unless nothing is accessed; the third is about casts from a base class.
  target_compile_options(warren_flags INTERFACE -fsanitize=address,undefined
                         -fno-sanitize=null,object-size,vptr -fno-sanitize-recover=all)
  target_link_options(warren_flags INTERFACE -fsanitize=address,undefined)
elseif(WARREN_SANITIZE STREQUAL "thread")
  # g++ warns that it does not model std::atomic_thread_fence; Asio's use is covered by its locks.
  target_compile_options(warren_flags INTERFACE -fsanitize=thread -Wno-tsan)
  target_link_options(warren_flags INTERFACE -fsanitize=thread)
endif()
