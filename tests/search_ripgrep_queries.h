#pragma once
// Queries, and the runs of ripgrep whose lines they must find.
//
//   any(p)     rg -e p: files with such a line, and files with such a path
//   in(p)      such a line;  across(p): rg -U;  path(p): such a path
//   re2(p)     where rg means something else by design (docs/query.md): RE2 on every line and path;
//              re2_across(p): on every text (after a match rg takes the next line for the beginning
//              of a text)
//   & | ~      files that have both, either, not; lines of both are shown, and none of what is not
//
// What rg is told differs from the query where the two differ by design: \w, \d, \s and \b know
// ASCII alone, and in any case a letter of ASCII equals letters of ASCII alone, so that rg gets
// (?-u) and (?i-u) around such parts.
#include <memory>
#include <string>
#include <vector>

namespace warren::search {

struct Want {
  enum class Kind { any, in, across, path, re2, re2_across, both, either, neither };
  Kind kind;
  std::string pattern = {};
  std::vector<Want> parts = {};
};
inline Want any(std::string p) { return {Want::Kind::any, std::move(p)}; }
inline Want in(std::string p) { return {Want::Kind::in, std::move(p)}; }
inline Want across(std::string p) { return {Want::Kind::across, std::move(p)}; }
inline Want path(std::string p) { return {Want::Kind::path, std::move(p)}; }
inline Want re2(std::string p) { return {Want::Kind::re2, std::move(p)}; }
inline Want re2_across(std::string p) { return {Want::Kind::re2_across, std::move(p)}; }
inline Want operator&(Want a, Want b) {
  return {Want::Kind::both, {}, {std::move(a), std::move(b)}};
}
inline Want operator|(Want a, Want b) {
  return {Want::Kind::either, {}, {std::move(a), std::move(b)}};
}
inline Want operator~(Want a) { return {Want::Kind::neither, {}, {std::move(a)}}; }

// RE2 takes half of a UTF-16 pair, written as three bytes, for a character; rg does not.
inline Want surrogate() { return in("(?-u:\\xed\\xa0\\x80)"); }

// lines: files and lines are equal; files: files are, and none has lines; one: a single entry for
// the repository; some: a part of the lines, for a limit was met, which the answer says.
enum class Compare { lines, files, one, some };

struct Case {
  std::string query;
  Want want;
  Compare compare = Compare::lines;
};

// clang-format off
inline std::vector<Case> ripgrep_cases() {
  return {
    // literals
    {"strbuf_addf", any("(?i-u)strbuf_addf")},
    {"xmalloc", any("(?i-u)xmalloc")},
    {"strbuf_addf case:yes", any("strbuf_addf")},
    {"STRBUF_INIT", any("STRBUF_INIT")},
    {"Strbuf_Init", any("Strbuf_Init")},
    {"STRBUF_init case:no", any("(?i-u)strbuf_init")},
    {"a", any("(?i-u)a")},
    {"Q", any("Q")},
    {"qz", any("(?i-u)qz")},
    {"if case:yes", any("if")},
    {"oid", any("(?i-u)oid")},
    {"\"->\"", any("->")},
    {"==", any("==")},
    {"#define", any("(?i-u)#define")},
    {"git-rebase--interactive", any("(?i-u)git-rebase--interactive")},
    {"test_expect_success", any("(?i-u)test_expect_success")},
    {"Junio", any("Junio")},
    {"no_such_word_anywhere_7f3a", any("no_such_word_anywhere_7f3a")},
    {"0x", any("(?i-u)0x")},
    {"2005", any("2005")},
    {"README", any("README")},
    {"makefile", any("(?i-u)makefile")},
    {"\\.gitignore", any("(?i-u)\\.gitignore")},
    {"content:the", in("(?i-u)the")},
    {"case:yes The", any("The")},
    // quoted
    {"\"static int\"", any("(?i-u)static int")},
    {"\"struct object_id *\"", any("(?i-u)struct object_id \\*")},
    {"\"if (!\"", any("(?i-u)if \\(!")},
    {"\"a.b\"", any("(?i-u)a\\.b")},
    {"\"\\\"%s\\\"\"", any("(?i-u)\"%s\"")},
    {"\"\\\\n\"", any("(?i-u)\\\\n")},
    {"\"\\treturn 0;\"", any("(?i-u)\\treturn 0;")},
    {"\"Copyright (C)\"", any("Copyright \\(C\\)")},
    {"\"or\"", any("(?i-u)or") },
    {"\"  \"", any("  ")},
    {"\"-foo\"", any("(?i-u)-foo")},
    {"\"file:\"", any("(?i-u)file:")},
    {"content:\"return NULL;\"", in("return NULL;")},
    {"content:\"}\\n\\n\"", across("\\}\\n\\n")},
    {"\"\\n\\n\\n\"", across("\\n\\n\\n")},
    // regular expressions: dots, classes, repetition
    {"str.uf", any("(?i-u)str[^\\n]uf")},
    {"strbuf_.*f\\(", any("(?i-u:strbuf_).*(?i-u:f)\\(")},
    {"xmalloc\\(.*sizeof", any("(?i-u:xmalloc)\\(.*(?i-u:sizeof)")},
    {"Git.*Git.*Git", any("Git.*Git.*Git")},
    {"[A-Z]{12,}", any("[A-Z]{12,}")},
    {"[0-9a-f]{40}", any("(?i-u)[0-9a-f]{40}")},
    {"0x[0-9A-F]+", any("0x[0-9A-F]+")},
    {"case:yes [a-z]+_[a-z]+_[a-z]+_[a-z]+_", any("[a-z]+_[a-z]+_[a-z]+_[a-z]+_")},
    {"[^a-zA-Z0-9[:space:]]{6,}", any("[^a-zA-Z0-9\\t\\n\\v\\f\\r ]{6,}")},
    {"\\w+\\(\\)", any("[0-9A-Za-z_]+\\(\\)")},
    {"\\d{4}-\\d{2}-\\d{2}", any("[0-9]{4}-[0-9]{2}-[0-9]{2}")},
    {"\\d+\\.\\d+\\.\\d+", any("[0-9]+\\.[0-9]+\\.[0-9]+")},
    {"if\\s*\\(\\s*!", any("(?i-u:if)[\\t\\f\\r ]*\\([\\t\\f\\r ]*!")},
    {"\\S{80}", any("[^\\t\\n\\f\\r ]{80}")},
    {"\\D\\d\\D\\d\\D", any("[^0-9\\n][0-9][^0-9\\n][0-9][^0-9\\n]")},
    {"\\W{10}", any("[^0-9A-Za-z_\\n]{10}")},
    {"return\\s+-1", any("(?i-u:return)[\\t\\f\\r ]+-1")},
    {"colou?r", any("(?i-u)colou?r")},
    {"(ab)+c", any("(?i-u)(ab)+c")},
    {"e{3}", any("(?i-u)e{3}")},
    {"o{2,3}k", any("(?i-u)o{2,3}k")},
    {"x{0}yz", any("(?i-u)yz")},
    {"free\\(.*?\\)", any("(?i-u:free)\\(.*?\\)")},
    {"<.+?>", any("<.+?>")},
    {"a??b+?c*?d", any("(?i-u)a??b+?c*?d")},
    {"[[:upper:]][[:digit:]]{3} case:yes", any("[A-Z][0-9]{3}")},
    {"[[:punct:]]{5}", any("[[:punct:]]{5}")},
    {"[[:xdigit:]]{32}", any("[[:xdigit:]]{32}")},
    {"[]x]{3}", any("(?i-u)[\\]x]{3}")},
    {"[a\\-z]{4}", any("(?i-u)[a\\-z]{4}")},
    {"[.]git[/]", any("(?i-u)[.]git[/]")},
    {"\\x41\\x42\\x43 case:yes", any("ABC")},
    {"\\x{47}it", any("(?i-u)git")},
    {"\\Qa->b\\E", any("(?i-u)a->b")},
    {"\\t\\t\\t\\t\\t\\t", any("\\t\\t\\t\\t\\t\\t")},
    {".{200}", any(".{200}")},
    {".{1000}", any(".{1000}")},
    {"content:[a-c]{8}", in("(?i-u)[a-c]{8}")},
    // anchors and boundaries
    {"^static", any("^(?i-u:static)")},
    {"^#include <.*>$", any("^(?i-u:#include)") & any("<.*>$") },
    {"content:^}$", in("^\\}$")},
    {"content:^$ file:\\.h$", in("^$") & path("(?i-u)\\.h$")},
    {"content:^\\s+$", in("^[\\t\\f\\r ]+$")},
    {"content:^.$", in("^.$")},
    {"content:^..?$", in("^..?$")},
    {";$", any(";$")},
    {"[^;{}]$ file:^abspath", (in("[^;{}\\n]$") & path("(?i-u)^abspath")) | (path("[^;{}]$") & path("(?i-u)^abspath"))},
    {"\\bint\\b", any("(?-u:\\b)(?i-u:int)(?-u:\\b)")},
    {"\\Bint\\B", any("(?-u:\\B)(?i-u:int)(?-u:\\B)")},
    {"\\bget_", any("(?-u:\\b)(?i-u:get_)")},
    {"oid\\b", any("(?i-u:oid)(?-u:\\b)")},
    {"\\b[A-Z]\\b", any("(?-u:\\b)[A-Z](?-u:\\b)")},
    {"^\\b", any("^(?-u:\\b)")},
    {"\\A#", any("^#")},
    {"\\\\\\z", any("\\\\$")},
    {"(?-m:^int)", any("^(?i-u:int)")},
    {"^(int|void|char) \\*?\\w+\\(", any("^(?i-u:int|void|char)") & any("\\*?[0-9A-Za-z_]+\\(")},
    {"content:^\\t*\\}\\s*else", in("^\\t*\\}[\\t\\f\\r ]*(?i-u:else)")},
    // choice, groups
    {"foo|bar", any("(?i-u)foo|bar")},
    {"(read|write)_in_full", any("(?i-u)(read|write)_in_full")},
    {"(?:un)?lock_file", any("(?i-u)(un)?lock_file")},
    {"(?P<verb>get|set)_config", any("(?i-u)(get|set)_config")},
    {"((a|b)c|d(e|f)){2}", any("(?i-u)((a|b)c|d(e|f)){2}")},
    {"die\\((_|N_)?\\(?\\\"", any("die\\((_|N_)?\\(?\"")},
    {"strbuf_(add|insert|remove|setlen|grow)\\b", any("(?i-u:strbuf_(add|insert|remove|setlen|grow))(?-u:\\b)")},
    {"(alpha|beta|gamma|delta|epsilon|zeta|eta|theta)", any("(?i-u)(alpha|beta|gamma|delta|epsilon|zeta|eta|theta)")},
    {"(|x)yzzy", any("(?i-u)x?yzzy")},
    {"(a(b(c(d(e)?)?)?)?)f", any("(?i-u)(a(b(c(d(e)?)?)?)?)f")},
    {"(^|,)\\s*NULL", any("(^|,)[\\t\\f\\r ]*NULL")},
    {"NULL(\\)|;|,)", any("NULL(\\)|;|,)")},
    // case
    {"(?i)STRBUF_ADDF", any("(?i-u)strbuf_addf")},
    {"(?i:S)trbuf_Addf", any("[sS]trbuf_Addf")},
    {"Git(?i)HUB", any("Git(?i-u:hub)")},
    {"(?-i)git[A-Z]", any("git[A-Z]")},
    {"(?i)[A-F]{6}", any("(?i-u)[a-f]{6}")},
    {"case:no TODO", any("(?i-u)todo")},
    {"case:yes todo", any("todo")},
    {"case:auto TODO", any("TODO")},
    {"Foo or bar", any("Foo") | any("(?i-u)bar")},
    // letters of ASCII equal letters of ASCII alone; rg's own (?i) has k equal the Kelvin sign
    {"kelvin_k", any("(?i-u)kelvin_k")},
    {"content:^k$", in("^(?i-u:k)$")},
    {"content:^s$", in("^(?i-u:s)$")},
    {"content:(?i)^[k]$", re2("^[kK]$") & in("^(?i-u:k)$")},
    {"content:(?i)^[^k]$", in("^[^kK\\n]$")},
    {"content:^i$", in("^(?i-u:i)$")},
    // beyond ASCII
    {"привет", any("(?i)привет")},
    {"ПРИВЕТ", any("(?i)привет")},
    {"Привет case:yes", any("Привет")},
    {"日本", any("日本")},
    {"日.語", any("日.語")},
    {"content:^.語$", in("^.語$")},
    {"héllo", any("(?i-u:h)(?i:é)(?i-u:llo)")},
    {"HÉLLO", any("HÉLLO")},
    {"HÉLLO case:no", any("(?i-u:h)(?i:é)(?i-u:llo)")},
    {"ß", any("(?i)ß")},
    {"σ", any("(?i)σ")},
    {"\u212a", any("(?i)\u212a")},
    {"\u212a case:yes", any("\u212a")},
    {"ſ", any("(?i)ſ")},
    {"İ", any("(?i)İ")},
    {"ı case:yes", any("ı")},
    {"👍", any("👍")},
    {"👍.👎", any("👍.👎")},
    {"e\u0301", any("(?i-u:e)\u0301")},
    {"[é-ü]", any("(?i)[é-ü]")},
    {"[é-ü] case:yes", any("[é-ü]")},
    {"[^\\x00-\\x7f]", any("[^\\x00-\\x7f]") | surrogate()},
    {"[^\\x00-\\x7f]{8}", any("[^\\x00-\\x7f]{8}")},
    {"\\p{Greek}+", any("\\p{Greek}+")},
    {"\\p{Cyrillic}{4} case:yes", any("\\p{Cyrillic}{4}")},
    {"\\p{Han}", any("\\p{Han}")},
    {"content:^\\p{Lu} case:yes file:odd/", in("^\\p{Lu}") & path("odd/")},
    {"content:[^\\x00-\\x7f]|\\pN{9}", in("[^\\x00-\\x7f]|\\pN{9}") | surrogate()},
    {"\\x{e9}t\\x{e9}", any("(?i:é)(?i-u:t)(?i:é)")},
    {"[日月]本", any("[日月]本")},
    {"\ufeff", any("\ufeff")},
    {"content:^\ufeffbom", in("^\ufeff(?i-u:bom)")},
    {"caf.", any("(?i-u:caf).")},
    {"caf\xe9 case:yes", any("(?-u:caf\\xe9)")},
    {"\"na\xefve\"", any("(?i-u:na\\xefve)")},
    {"\"\xff\xfe\"", any("(?-u:\\xff\\xfe)")},
    {"content:invalid.here", in("(?i-u:invalid).(?i-u:here)") | surrogate()},
    {"content:^.*valid.*$ file:odd/invalid", (in("^.*(?i-u:valid).*$") | surrogate()) & path("odd/invalid")},
    {"naïve", any("(?i-u:na)(?i:ï)(?i-u:ve)")},
    // line ends
    {"content:crlf_end$", in("(?i-u:crlf_end)$")},
    {"content:crlf_end\\r$", in("(?i-u:crlf_end)\\r$")},
    {"content:\\r$", in("\\r$")},
    {"content:\\r.", in("\\r.")},
    {"cr_only_two", any("(?i-u)cr_only_two")},
    {"content:one.cr_only_two", in("(?i-u:one).(?i-u:cr_only_two)")},
    {"no_final_newline$", any("(?i-u:no_final_newline)$")},
    {"content:\\v", in("\\v")},
    {"content:page\\fbreak", in("(?i-u)page\\fbreak")},
    // rg's \s has the vertical tab, RE2's has not
    {"content:vertical\\stab", re2("(?i)vertical[\\t\\f\\r ]tab") & in("(?i-u:vertical)[\\t\\f\\r ](?i-u:tab)")},
    // NUL, long lines, many lines
    {"after_the_nul", any("(?i-u)after_the_nul")},
    {"content:\\x00", in("\\x00")},
    {"content:nul\\x00byte", in("(?i-u)nul\\x00byte")},
    {"needle_at_begin", any("(?i-u)needle_at_begin")},
    {"needle_at_end$", any("(?i-u:needle_at_end)$")},
    {"needle_at_begin.*needle_in_middle.*needle_at_end", any("(?i-u)needle_at_begin.*needle_in_middle.*needle_at_end")},
    {"content:x{1000}", in("(?i-u)x{1000}")},
    {"content:^[0-9]{5}$", in("^[0-9]{5}$")},
    {"content:^49999$", in("^49999$")},
    {"in_early_nul", any("(?i-u)in_early_nul")},
    {"in_large_file", any("(?i-u)in_large_file")},
    // across lines
    {"content:{\\n\\treturn", across("\\{\\n\\t(?i-u:return)")},
    {"content:\\)\\n\\{\\n", across("\\)\\n\\{\\n")},
    {"content:;\\n\\n\\n", across(";\\n\\n\\n")},
    {"content:#endif\\n$", across("(?i-u:#endif)\\n$")},
    {"content:^}\\n^$\\n^int", across("^\\}\\n^$\\n^(?i-u:int)")},
    {"content:(?s)crlf_one.crlf_end.*two", across("(?s)(?i-u:crlf_one).(?i-u:crlf_end).*(?i-u:two)")},
    {"content:(?s:needle_at_begin.{900}.*needle_at_end)", across("(?s)(?i-u:needle_at_begin).{900}.*(?i-u:needle_at_end)")},
    {"content:struct\\s+\\w+\\s*\\{[^}]*\\n[^}]*oid", across("(?i-u:struct)[\\t\\n\\f\\r ]+[0-9A-Za-z_]+[\\t\\n\\f\\r ]*\\{[^}]*\\n[^}]*(?i-u:oid)")},
    {"content:[\\s\\S]{3}cr_only_two", across("(?s:.{3})(?i-u:cr_only_two)")},
    {"content:else\\n\\s+if", across("(?i-u:else)\\n[\\t\\n\\f\\r ]+(?i-u:if)")},
    {"content:\\n\\z file:odd/", across("\\n\\z") & path("odd/")},
    {"content:\\A\\n", re2_across("\\A\\n")},
    {"content:\\A#!/bin/sh\\n", across("\\A(?i-u:#!/bin/sh)\\n")},
    {"content:no_final_newline\\n", across("(?i-u:no_final_newline)\\n")},
    {"content:(alpha|beta)\\n(gamma|delta)", across("(?i-u:alpha|beta)\\n(?i-u:gamma|delta)")},
    {"content:\\n日本", across("\\n日本")},
    {"content:(?s:привет.{1,20}世界)", across("(?i:привет)(?s:.{1,20})世界")},
    // paths
    {"file:\\.c$ strbuf_addf", path("(?i-u)\\.c$") & any("(?i-u)strbuf_addf")},
    {"file:*.h strbuf_addf", path("(?i-u)\\.h$") & any("(?i-u)strbuf_addf")},
    {"file:*.sh", path("(?i-u)\\.sh$")},
    {"file:*test*.c", path("(?i-u)test[^/]*\\.c$")},
    {"file:*-?.c", path("-[^/]\\.c$")},
    {"file:Makefile", path("Makefile")},
    {"file:^Makefile$", path("^Makefile$")},
    {"f:readme", path("(?i-u)readme")},
    {"file:\"spa ce\"", path("spa ce")},
    {"file:\"quo\\\"te\"", path("quo\"te")},
    {"file:odd/ file:txt", path("odd/") & path("(?i-u)txt")},
    {"file:(diff|merge).*\\.h$", path("(?i-u)(diff|merge).*\\.h$")},
    {"file:^[a-c][^/]*$", path("(?i-u)^[a-c][^/]*$")},
    {"-file:\\.c$ xmalloc", ~path("(?i-u)\\.c$") & any("(?i-u)xmalloc")},
    {"xmalloc -file:^compat/ -file:^builtin/", any("(?i-u)xmalloc") & ~path("(?i-u)^compat/") & ~path("(?i-u)^builtin/")},
    {"file:UPPER", path("UPPER")},
    {"file:upper", path("(?i-u)upper")},
    {"file:日本", path("日本")},
    {"file:.* strbuf_splice", any("(?i-u)strbuf_splice")},
    {"-file:. strbuf_splice", any("(?i-u)strbuf_splice") & ~any("(?i-u)strbuf_splice")},
    {"file:\\bt\\d{4}-", path("(?-u:\\b)[tT][0-9]{4}-")},
    // languages, as the names and first lines have them
    {"lang:rust", path("(?i-u)\\.rs$")},
    {"lang:c strbuf_addf file:\\.c$", path("(?i-u)\\.c$") & any("(?i-u)strbuf_addf")},
    {"lang:go func", path("(?i-u)\\.go$|(^|/)go\\.mod$") & any("(?i-u)func")},
    {"lang:js", path("(?i-u)\\.(js|mjs|cjs|jsx)$")},
    {"-lang:c file:\\.c$", path("(?i-u)\\.c$") & ~path("(?i-u)\\.c$")},
    // and, or, not, groups
    {"strbuf xmalloc", any("(?i-u)strbuf") & any("(?i-u)xmalloc")},
    {"strbuf xmalloc oid_array", any("(?i-u)strbuf") & any("(?i-u)xmalloc") & any("(?i-u)oid_array")},
    {"strbuf -xmalloc", any("(?i-u)strbuf") & ~any("(?i-u)xmalloc")},
    {"-strbuf xmalloc -die", any("(?i-u)xmalloc") & ~any("(?i-u)strbuf") & ~any("(?i-u)die")},
    {"oid_array or string_list_init", any("(?i-u)oid_array") | any("(?i-u)string_list_init")},
    {"oid_array or string_list_init or hashmap_iter", any("(?i-u)oid_array") | any("(?i-u)string_list_init") | any("(?i-u)hashmap_iter")},
    {"oid_array strbuf or xmalloc -strbuf", (any("(?i-u)oid_array") & any("(?i-u)strbuf")) | (any("(?i-u)xmalloc") & ~any("(?i-u)strbuf"))},
    {"(oid_array or hashmap_iter) strbuf", (any("(?i-u)oid_array") | any("(?i-u)hashmap_iter")) & any("(?i-u)strbuf")},
    {"xmalloc -(strbuf or die)", any("(?i-u)xmalloc") & ~(any("(?i-u)strbuf") | any("(?i-u)die"))},
    {"xmalloc -(strbuf die)", any("(?i-u)xmalloc") & ~(any("(?i-u)strbuf") & any("(?i-u)die"))},
    {"xmalloc --strbuf", any("(?i-u)xmalloc") & ~~any("(?i-u)strbuf")},
    {"((oid_array (strbuf or die)) or (hashmap_iter -free))", (any("(?i-u)oid_array") & (any("(?i-u)strbuf") | any("(?i-u)die"))) | (any("(?i-u)hashmap_iter") & ~any("(?i-u)free"))},
    {"(file:\\.h$ or file:\\.c$) hashmap_iter", (path("(?i-u)\\.h$") | path("(?i-u)\\.c$")) & any("(?i-u)hashmap_iter")},
    {"hashmap_iter (file:\\.h$ or -file:hash)", any("(?i-u)hashmap_iter") & (path("(?i-u)\\.h$") | ~path("(?i-u)hash"))},
    {"content:strbuf -content:xmalloc file:\\.c$", in("(?i-u)strbuf") & ~in("(?i-u)xmalloc") & path("(?i-u)\\.c$")},
    {"content:oid file:oid", in("(?i-u)oid") & path("(?i-u)oid")},
    {"c:hashmap_iter", in("(?i-u)hashmap_iter")},
    {"-content:a file:odd/", ~in("(?i-u)a") & path("odd/")},
    {"-\\w file:odd/", ~any("[0-9A-Za-z_]") & path("odd/")},
    {"-content:\\n file:odd/", ~across("\\n") & path("odd/")},
    {"strbuf.*free -xmalloc.*die", any("(?i-u)strbuf.*free") & ~any("(?i-u)xmalloc.*die")},
    {"\"static int\" \"return 0;\" file:^builtin", any("(?i-u)static int") & any("(?i-u)return 0;") & path("(?i-u)^builtin")},
    {"repo:corpus hashmap_iter", any("(?i-u)hashmap_iter")},
    {"-repo:corpus hashmap_iter", any("(?i-u)hashmap_iter") & ~any("(?i-u)hashmap_iter")},
    // what is shown
    {"strbuf select:file", any("(?i-u)strbuf"), Compare::files},
    {"strbuf type:file", any("(?i-u)strbuf"), Compare::files},
    {"strbuf type:filename", any("(?i-u)strbuf"), Compare::files},
    {"strbuf -xmalloc select:file", any("(?i-u)strbuf") & ~any("(?i-u)xmalloc"), Compare::files},
    {"strbuf select:path", path("(?i-u)strbuf"), Compare::files},
    {"strbuf type:path file:\\.h$", path("(?i-u)strbuf") & path("(?i-u)\\.h$"), Compare::files},
    {"strbuf select:repo", any("(?i-u)strbuf"), Compare::one},
    {"strbuf type:repo", any("(?i-u)strbuf"), Compare::one},
    {"strbuf type:content", any("(?i-u)strbuf")},
    {"strbuf count:all", any("(?i-u)strbuf")},
    {"return count:50", any("(?i-u)return"), Compare::some},
    {"hashmap_iter count:1000000", any("(?i-u)hashmap_iter")},
    {"^ file:^strbuf", (in("^") & path("(?i-u)^strbuf")) | path("(?i-u)^strbuf")},
    {"x* file:odd/crlf", in("^") & path("odd/crlf")},
    {"content:a|^ file:odd/", in("^") & path("odd/")},
  };
}
// clang-format on

}  // namespace warren::search
