#pragma once
// Files as nobody would write them and everybody has them.
#include <filesystem>
#include <fstream>
#include <string>

namespace warren::search {

inline void write_odd_files(const std::filesystem::path& folder) {
  auto write = [&](const std::string& name, const std::string& text) {
    auto path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  };
  using namespace std::string_literals;
  write(
      "unicode.txt",
      "Привет, мир\nпривет\nПРИВЕТ 世界\n日本語\n日本\n月本\n東語\nhéllo\nHÉLLO\nété\nÉTÉ\nnaïve\n"
      "Ελλάδα\nσίγμα ς Σ\n👍 👎\n👍x👎\nשלום\nمرحبا\nü Ü\n");
  write("folding.txt",
        "k\nK\n\u212a\ns\nS\nſ\ni\nI\nİ\nı\nß\nẞ\nss\nΩ\nω\n\u2126\nkelvin_k\nKELVIN_K\n"
        "\u212aelvin_\u212a\n");
  write("combining.txt", "e\u0301\né\ncafe\u0301\na\u0308o\u0308u\u0308\n");
  write("latin1.txt", "caf\xe9 cr\xe8me\nna\xefve\nNA\xefVE\n\xa9 1999\nplain caf x\n");
  write("invalid.txt",
        "invalid\xffhere\ninvalid\xc3here\ninvalid\xed\xa0\x80here\ninvalid here\ninvalidéhere\n"
        "\xff\xfe\n\xf5\x80\x80\x80\n\x80\nvalid\n\xc3");
  write("crlf.txt", "crlf_one\r\ncrlf_end\r\n\r\ntwo\r\n\r\n");
  write("mixed.txt", "crlf_one\ncrlf_end\nx\r\ny\n\n");
  write("cr.txt", "one\rcr_only_two\rthree\r");
  write("nofinal.txt", "first\nno_final_newline");
  write("nul_late.txt", std::string(8192, 'x') + "\nnul\0byte\nafter_the_nul\n"s);
  write("nul_early.bin", "in_early_nul\n\0\nin_early_nul\n"s);
  write("nul_at_8191.bin", std::string(8191, 'n') + "\0in_early_nul\n"s);
  std::string filler(50'000, 'x');
  write("long.txt", "needle_at_begin" + filler + "needle_in_middle" + filler + "needle_at_end\n" +
                        filler + filler + "\nneedle_at_end\n" + filler + filler);
  write("large.txt", "in_large_file\n" + std::string(5u << 20, 'l'));
  write("empty.txt", "");
  write("newlines.txt", std::string(3000, '\n'));
  write("bom.txt", "\ufeffbom first\nbom second\n");
  write("utf16.txt", "\xff\xfeu\0t\0f\0\n\0"s);
  std::string lines;
  for (int i = 0; i < 50'000; ++i) lines += std::to_string(i) + "\n";
  write("short.txt", lines);
  write("white.txt", "\t\n \n\v\n\f\nvertical\vtab\nvertical tab\npage\fbreak\n\u00a0\n\u2003\n");
  write("across.txt", "alpha\ngamma\nbeta\ndelta\nalpha\n\ngamma\n日本\nпривет\n\n世界\n");
  write("spa ce.txt", "in a file with a space\n");
  write("quo\"te.txt", "in a file with a quote\n");
  write("UPPER.TXT", "UPPER lower\n");
  write("日本/файл.c", "int main(void) { return 0; }\n");
  write("a.rs", "fn main() {}\n");
  write(".hidden", "strbuf_addf in a hidden file\n");
  write(".gitignore", "*\n");
}

}  // namespace warren::search
