#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <unordered_map>

#include "search/source/classify.h"

namespace warren::search {

namespace {

// Saved segments contain indexes into this table: append only.
constexpr auto names = std::to_array<std::string_view>({"",
                                                        "C",
                                                        "C++",
                                                        "Objective-C",
                                                        "Python",
                                                        "JavaScript",
                                                        "TypeScript",
                                                        "Java",
                                                        "Go",
                                                        "Rust",
                                                        "Ruby",
                                                        "PHP",
                                                        "C#",
                                                        "Swift",
                                                        "Kotlin",
                                                        "Scala",
                                                        "Shell",
                                                        "Perl",
                                                        "Lua",
                                                        "R",
                                                        "Haskell",
                                                        "OCaml",
                                                        "Erlang",
                                                        "Elixir",
                                                        "Clojure",
                                                        "Lisp",
                                                        "Assembly",
                                                        "SQL",
                                                        "HTML",
                                                        "CSS",
                                                        "SCSS",
                                                        "Less",
                                                        "XML",
                                                        "JSON",
                                                        "YAML",
                                                        "TOML",
                                                        "INI",
                                                        "Markdown",
                                                        "reStructuredText",
                                                        "TeX",
                                                        "Text",
                                                        "CMake",
                                                        "Makefile",
                                                        "Dockerfile",
                                                        "Protocol Buffer",
                                                        "Thrift",
                                                        "GraphQL",
                                                        "Vue",
                                                        "Svelte",
                                                        "Dart",
                                                        "Julia",
                                                        "Fortran",
                                                        "Pascal",
                                                        "Ada",
                                                        "D",
                                                        "Zig",
                                                        "Nim",
                                                        "Groovy",
                                                        "PowerShell",
                                                        "Batchfile",
                                                        "Vim Script",
                                                        "Emacs Lisp",
                                                        "Awk",
                                                        "Sed",
                                                        "Tcl",
                                                        "Yacc",
                                                        "Lex",
                                                        "M4",
                                                        "Meson",
                                                        "Starlark",
                                                        "Nix",
                                                        "HCL",
                                                        "Kconfig",
                                                        "Device Tree",
                                                        "Diff",
                                                        "Roff",
                                                        "Verilog",
                                                        "VHDL",
                                                        "CUDA",
                                                        "OpenCL",
                                                        "GLSL",
                                                        "HLSL",
                                                        "F#",
                                                        "Visual Basic",
                                                        "Gettext",
                                                        "SVG",
                                                        "CSV",
                                                        "Jupyter Notebook",
                                                        "Linker Script",
                                                        "Solidity"});

struct Rule {
  std::string_view words;  // separated by blanks
  std::string_view language;
};

constexpr auto extensions = std::to_array<Rule>({
    {"c", "C"},
    {"cc cpp cxx c++ hpp hh hxx h++ ipp tpp inl ixx cppm", "C++"},
    {"m", "Objective-C"},
    {"mm", "Objective-C"},
    {"py pyi pyw pyx pxd", "Python"},
    {"js mjs cjs jsx", "JavaScript"},
    {"ts tsx mts cts", "TypeScript"},
    {"java", "Java"},
    {"go", "Go"},
    {"rs", "Rust"},
    {"rb rake gemspec", "Ruby"},
    {"php phtml", "PHP"},
    {"cs", "C#"},
    {"swift", "Swift"},
    {"kt kts", "Kotlin"},
    {"scala sc", "Scala"},
    {"sh bash zsh ksh bats", "Shell"},
    {"pl pm t", "Perl"},
    {"lua", "Lua"},
    {"r", "R"},
    {"hs lhs", "Haskell"},
    {"ml mli", "OCaml"},
    {"erl hrl", "Erlang"},
    {"ex exs", "Elixir"},
    {"clj cljs cljc edn", "Clojure"},
    {"lisp lsp cl scm rkt ss", "Lisp"},
    {"s asm", "Assembly"},
    {"sql", "SQL"},
    {"html htm xhtml", "HTML"},
    {"css", "CSS"},
    {"scss sass", "SCSS"},
    {"less", "Less"},
    {"xml xsl xslt xsd sgml", "XML"},
    {"json json5 jsonl", "JSON"},
    {"yaml yml", "YAML"},
    {"toml", "TOML"},
    {"ini cfg conf properties", "INI"},
    {"md markdown mdx", "Markdown"},
    {"rst", "reStructuredText"},
    {"tex sty bib texi", "TeX"},
    {"txt", "Text"},
    {"cmake", "CMake"},
    {"mk mak", "Makefile"},
    {"proto", "Protocol Buffer"},
    {"thrift", "Thrift"},
    {"graphql gql", "GraphQL"},
    {"vue", "Vue"},
    {"svelte", "Svelte"},
    {"dart", "Dart"},
    {"jl", "Julia"},
    {"f f77 f90 f95 f03 for", "Fortran"},
    {"pas pp", "Pascal"},
    {"adb ads", "Ada"},
    {"d", "D"},
    {"zig", "Zig"},
    {"nim", "Nim"},
    {"groovy gradle", "Groovy"},
    {"ps1 psm1 psd1", "PowerShell"},
    {"bat cmd", "Batchfile"},
    {"vim", "Vim Script"},
    {"el", "Emacs Lisp"},
    {"awk", "Awk"},
    {"sed", "Sed"},
    {"tcl", "Tcl"},
    {"y yy", "Yacc"},
    {"l ll", "Lex"},
    {"m4 ac", "M4"},
    {"bzl bazel star", "Starlark"},
    {"nix", "Nix"},
    {"tf hcl tfvars", "HCL"},
    {"dts dtsi", "Device Tree"},
    {"diff patch", "Diff"},
    {"1 2 3 4 5 6 7 8 man", "Roff"},
    {"v vh sv svh", "Verilog"},
    {"vhd vhdl", "VHDL"},
    {"cu cuh", "CUDA"},
    {"glsl vert frag", "GLSL"},
    {"hlsl fx", "HLSL"},
    {"fs fsx fsi", "F#"},
    {"vb vbs", "Visual Basic"},
    {"po pot", "Gettext"},
    {"svg", "SVG"},
    {"csv tsv", "CSV"},
    {"ipynb", "Jupyter Notebook"},
    {"ld lds", "Linker Script"},
    {"sol", "Solidity"},
});

constexpr auto whole_names = std::to_array<Rule>({
    {"cmakelists.txt", "CMake"},
    {"makefile gnumakefile kbuild", "Makefile"},
    {"dockerfile containerfile", "Dockerfile"},
    {"rakefile gemfile vagrantfile", "Ruby"},
    {"jenkinsfile", "Groovy"},
    {"meson.build meson_options.txt", "Meson"},
    {"build workspace", "Starlark"},
    {"kconfig", "Kconfig"},
    {"configure .bashrc .profile", "Shell"},
    {".vimrc", "Vim Script"},
    {"go.mod", "Go"},
    {"readme license copying authors", "Text"},
});

constexpr auto programs = std::to_array<Rule>({
    {"sh bash dash zsh ksh ash", "Shell"},
    {"python", "Python"},
    {"perl", "Perl"},
    {"ruby", "Ruby"},
    {"node nodejs deno", "JavaScript"},
    {"php", "PHP"},
    {"lua luajit", "Lua"},
    {"awk gawk mawk", "Awk"},
    {"sed", "Sed"},
    {"tclsh wish", "Tcl"},
    {"rscript", "R"},
    {"make", "Makefile"},
    {"pwsh", "PowerShell"},
    {"groovy", "Groovy"},
});

std::uint16_t place_of(std::string_view language) {
  auto found = std::find(names.begin(), names.end(), language);
  ensure(found != names.end(), "a rule names a language of the table");
  return static_cast<std::uint16_t>(found - names.begin());
}

using Table = std::unordered_map<std::string_view, std::uint16_t>;

Table table_of(std::span<const Rule> rules) {
  Table table;
  for (auto [words, language] : rules) {
    while (!words.empty()) {
      auto word = words.substr(0, words.find(' '));
      table.emplace(word, place_of(language));
      words.remove_prefix(std::min(words.size(), word.size() + 1));
    }
  }
  return table;
}

std::uint16_t look_up(const Table& table, std::string_view word) {
  auto found = table.find(word);
  return found == table.end() ? 0 : found->second;
}

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

std::uint16_t header_language(std::string_view text) {
  static const auto c = place_of("C"), cpp = place_of("C++"), objective_c = place_of("Objective-C");
  text = text.substr(0, 4096);
  if (has(text, "\n@interface") || has(text, "\n@protocol") || has(text, "\n#import"))
    return objective_c;
  for (auto word : {"namespace ", "template <", "template<", "\nclass ", "std::", "public:"})
    if (has(text, word)) return cpp;
  return c;
}

// "#!/usr/bin/env -S python3.11 -u" is python.
std::uint16_t interpreter(std::string_view text) {
  static const auto table = table_of(programs);
  if (!text.starts_with("#!")) return 0;
  auto line = text.substr(2, std::min<std::size_t>(text.find('\n'), 200));
  while (!line.empty()) {
    auto word = line.substr(0, line.find_first_of(" \t\r\n"));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    auto name = word.substr(word.rfind('/') + 1);
    if (name.empty() || name == "env" || name[0] == '-') continue;
    return look_up(table, name.substr(0, name.find_first_of("0123456789.")));
  }
  return 0;
}

}  // namespace

std::uint16_t language_of(std::string_view path, std::string_view text) {
  static const auto by_extension = table_of(extensions), by_name = table_of(whole_names);
  auto base = path.substr(path.rfind('/') + 1);
  if (base.size() > 64) base.remove_prefix(base.size() - 64);
  std::string name(base);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (auto known = look_up(by_name, name)) return known;
  auto dot = name.rfind('.');
  auto extension =
      dot == std::string::npos ? std::string_view() : std::string_view(name).substr(dot + 1);
  if (extension == "h") return header_language(text);
  if (auto known = look_up(by_extension, extension)) return known;
  if (auto known = look_up(by_name, std::string_view(name).substr(0, dot))) return known;
  return interpreter(text);
}

std::string_view language_name(std::uint16_t language) {
  return language < names.size() ? names[language] : std::string_view();
}

std::uint16_t language_count() { return names.size(); }

}  // namespace warren::search
