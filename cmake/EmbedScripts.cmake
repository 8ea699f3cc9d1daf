# Writes a header with one `inline const redis::Script` for each Lua file in FILES.
set(text "#pragma once\n#include \"redis/script.h\"\nnamespace warren::scripts {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} body)
  string(APPEND text "inline const redis::Script ${name}{\"${name}\", R\"lua(${body})lua\"};\n")
endforeach()
string(APPEND text "}  // namespace warren::scripts\n")
file(WRITE ${OUTPUT} "${text}")
