# What the lint needs built before it reads the code, and the test programs that run under TSan too.
add_custom_target(generated)
add_custom_target(threads_tests)

# warren_module(NAME SOURCES … [SCRIPTS …] [DEPENDS …]
#               [TESTS …] [TEST_DEPENDS …] [TIMEOUT s] [LABELS …])
#
# One folder that src/CMakeLists.txt lists is one module: a library warren::NAME, its Lua scripts
# embedded as `warren::scripts::<file name>` in "<folder>/scripts.h", and one test program
# NAME_test. LABELS threads has the test program run under TSan as well.
function(warren_module name)
  cmake_parse_arguments(M "" "TIMEOUT" "SOURCES;SCRIPTS;DEPENDS;TESTS;TEST_DEPENDS;LABELS" ${ARGN})
  add_library(warren_${name} STATIC ${M_SOURCES})
  add_library(warren::${name} ALIAS warren_${name})
  target_link_libraries(warren_${name} PUBLIC warren_flags ${M_DEPENDS})
  if(NOT name STREQUAL "base")
    target_precompile_headers(warren_${name} REUSE_FROM warren_base)
  endif()
  if(M_SCRIPTS)
    warren_embed_scripts(${name} ${M_SCRIPTS})
  endif()
  if(M_TESTS)
    warren_test(${name}_test SOURCES ${M_TESTS} DEPENDS warren::${name} ${M_TEST_DEPENDS}
                TIMEOUT ${M_TIMEOUT} LABELS ${M_LABELS})
  endif()
endfunction()

# One doctest program, run by ctest as one test; TIMEOUT and LABELS as above.
function(warren_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES} ${CMAKE_SOURCE_DIR}/src/proof/testkit/main.cc)
  target_link_libraries(${name} PRIVATE warren_flags ${T_DEPENDS})
  target_precompile_headers(${name} REUSE_FROM warren_base)
  add_test(NAME ${name} COMMAND ${name} --duration=true)
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}")
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
