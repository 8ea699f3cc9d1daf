# What the lint needs built before it reads the code, and the test programs that run under TSan too.
add_custom_target(generated)
add_custom_target(threads_tests)

# warren_module(NAME SOURCES … [SCRIPTS …] [DEPENDS …] [NO_BATCHES] [WAITS]
#               [TESTS …] [TEST_DEPENDS …] [TIMEOUT s] [LABELS …])
#
# One folder that src/CMakeLists.txt lists is one module: a library warren::NAME, its Lua scripts
# embedded as `warren::scripts::<file name>` in "<folder>/scripts.h", and one test program
# NAME_test, with TIMEOUT and LABELS as for warren_test.
function(warren_module name)
  cmake_parse_arguments(M "NO_BATCHES;WAITS" "TIMEOUT" "SOURCES;SCRIPTS;DEPENDS;TESTS;TEST_DEPENDS;LABELS" ${ARGN})
  set(sources ${M_SOURCES})
  if(NOT M_NO_BATCHES)
    warren_batches(sources warren_${name} ${M_SOURCES})
  endif()
  add_library(warren_${name} STATIC ${sources})
  add_library(warren::${name} ALIAS warren_${name})
  target_link_libraries(warren_${name} PUBLIC warren_flags ${M_DEPENDS})
  if(NOT name STREQUAL "base")
    target_precompile_headers(warren_${name} REUSE_FROM warren_base)
  endif()
  if(M_WAITS)
    warren_waits(warren_${name})
  endif()
  if(M_SCRIPTS)
    warren_embed_scripts(${name} ${M_SCRIPTS})
  endif()
  if(M_TESTS)
    warren_test(${name}_test SOURCES ${M_TESTS} DEPENDS warren::${name} ${M_TEST_DEPENDS}
                TIMEOUT ${M_TIMEOUT} LABELS ${M_LABELS})
  endif()
endfunction()

# What mostly waits, for people, servers and child processes, is compiled in three quarters of the time.
# WAITS says the same of a module.
function(warren_waits target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1 -Wno-maybe-uninitialized>)
endfunction()

# At the end of its folder: what is said of a file after it was put into a batch would be lost.
function(warren_has_no_flags file)
  get_source_file_property(options ${file} COMPILE_OPTIONS)
  get_source_file_property(definitions ${file} COMPILE_DEFINITIONS)
  if(options OR definitions)
    message(FATAL_ERROR "${file} has flags of its own: set them above warren_module()")
  endif()
endfunction()

# warren_batches(OUT NAME FILES …): the same files, as a compiler should see them. Most of what a file
# costs is what it includes and instantiates, so up to WARREN_BATCH files of a folder are compiled as
# one; 0: each by itself, as in `debug`, which thereby sees that each includes what it needs. A file
# that has flags of its own or SKIP_UNITY_BUILD_INCLUSION stays alone.
set(WARREN_BATCH 3 CACHE STRING "how many files of a folder are compiled as one; 0: none")
function(warren_batches out name)
  set(result "")
  set(folders "")
  foreach(file IN LISTS ARGN)
    get_source_file_property(options ${file} COMPILE_OPTIONS)
    get_source_file_property(definitions ${file} COMPILE_DEFINITIONS)
    get_source_file_property(alone ${file} SKIP_UNITY_BUILD_INCLUSION)
    if(WARREN_BATCH EQUAL 0 OR options OR definitions OR alone)
      list(APPEND result ${file})
      continue()
    endif()
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    get_filename_component(folder ${path} DIRECTORY)
    string(REPLACE "/" "_" folder ${folder})
    list(APPEND folders ${folder})
    list(APPEND files_${folder} ${path})
    cmake_language(EVAL CODE "cmake_language(DEFER CALL warren_has_no_flags [[${file}]])")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    # As even as they go: 9 files are 5 and 4, not 8 and 1.
    list(LENGTH files_${folder} count)
    math(EXPR batches "(${count} + ${WARREN_BATCH} - 1) / ${WARREN_BATCH}")
    foreach(number RANGE 1 ${batches})
      math(EXPR first "(${number} - 1) * ${count} / ${batches}")
      math(EXPR length "${number} * ${count} / ${batches} - ${first}")
      list(SUBLIST files_${folder} ${first} ${length} some)
      if(length EQUAL 1)
        list(APPEND result ${CMAKE_SOURCE_DIR}/${some})
        continue()
      endif()
      set(text "")
      foreach(path IN LISTS some)
        string(APPEND text "#include \"${path}\"\n")
      endforeach()
      set(batch ${CMAKE_BINARY_DIR}/batches/${name}/${folder}_${number}.cc)
      file(CONFIGURE OUTPUT ${batch} CONTENT "${text}" @ONLY)
      # g++ cannot know that what an included .cc hides is included nowhere else.
      set_source_files_properties(${batch} PROPERTIES COMPILE_OPTIONS
                                  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
      list(APPEND result ${batch})
    endforeach()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# One doctest program, run by ctest as one test. Three run at once, since most of them wait for servers
# most of the time, and those with the longest limits begin.
#   LABELS threads   runs under TSan too; with threads_suite, only what is in doctest's suite "threads"
#          computes  keeps both cores busy: counts for two
#          release   a sanitizer learns nothing from it, and it is left out there
function(warren_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(WARREN_SANITIZE AND "release" IN_LIST T_LABELS)
    return()
  endif()
  add_executable(${name} ${T_SOURCES} $<TARGET_OBJECTS:warren_test_main>)
  target_link_libraries(${name} PRIVATE warren_flags ${T_DEPENDS})
  # What is tested is optimised as users get it; the tests themselves are compiled in half the time.
  # At this level g++ sees uses of what is not there in its own std::regex and std::function.
  target_compile_options(${name} PRIVATE -Og -Wno-maybe-uninitialized)
  target_compile_definitions(${name} PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
  target_precompile_headers(${name} REUSE_FROM warren_base)
  if(WARREN_SANITIZE STREQUAL "thread" AND "threads_suite" IN_LIST T_LABELS)
    add_test(NAME ${name} COMMAND ${name} --duration=true --test-suite=threads)
  else()
    add_test(NAME ${name} COMMAND ${name} --duration=true)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)  # by far: a bound for what hangs, on a machine that does much else
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} COST ${T_TIMEOUT} LABELS "${T_LABELS}")
  if("computes" IN_LIST T_LABELS)
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  endif()
  if("threads" IN_LIST T_LABELS)
    add_dependencies(threads_tests ${name})
  endif()
endfunction()

function(warren_embed_scripts name)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  set(header ${CMAKE_BINARY_DIR}/generated/${folder}/scripts.h)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${header} "-DFILES=${files}"
            -P ${CMAKE_SOURCE_DIR}/cmake/EmbedScripts.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/EmbedScripts.cmake
    VERBATIM)
  target_sources(warren_${name} PRIVATE ${header})
  add_custom_target(${name}_scripts DEPENDS ${header})
  add_dependencies(generated ${name}_scripts)
endfunction()
