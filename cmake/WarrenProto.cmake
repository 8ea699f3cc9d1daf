# warren_proto(NAME FILES …): a library warren::NAME of messages and services, generated at build
# time from .proto files of proto/ into build/…/generated/proto/NAME. It is compiled without our
# warnings, and its headers count as those of the system.
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
# It asks for -pthread, with which our precompiled header does not fit, and which nothing needs.
set_target_properties(re2::re2 PROPERTIES INTERFACE_COMPILE_OPTIONS "")

function(warren_proto name)
  set(folder ${CMAKE_BINARY_DIR}/generated/proto)
  file(MAKE_DIRECTORY ${folder})
  set(outputs "")
  foreach(file IN LISTS ARGN)
    get_filename_component(stem ${file} NAME_WE)
    set(made ${folder}/${stem}.pb.cc ${folder}/${stem}.pb.h ${folder}/${stem}.grpc.pb.cc
             ${folder}/${stem}.grpc.pb.h)
    add_custom_command(
      OUTPUT ${made}
      COMMAND protobuf::protoc -I ${CMAKE_SOURCE_DIR}/proto --cpp_out=${folder} --grpc_out=${folder}
              --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin> ${file}
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/proto
      DEPENDS ${CMAKE_SOURCE_DIR}/proto/${file}
      VERBATIM)
    list(APPEND outputs ${made})
  endforeach()
  add_library(warren_${name} STATIC ${outputs})
  add_library(warren::${name} ALIAS warren_${name})
  target_include_directories(warren_${name} SYSTEM PUBLIC ${folder})
  target_link_libraries(warren_${name} PUBLIC gRPC::grpc++ protobuf::libprotobuf)
  target_compile_options(warren_${name} PRIVATE -w)
  add_custom_target(${name}_generated DEPENDS ${outputs})
  add_dependencies(generated ${name}_generated)
endfunction()
