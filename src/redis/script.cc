#include "redis/script.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <vector>

namespace warren::redis {

namespace {

std::string sha1(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

Command call(const char* how, const std::string& what, std::span<const std::string> keys,
             std::span<const std::string> args) {
  std::vector<std::string> words{how, what, std::to_string(keys.size())};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), args.begin(), args.end());
  return Command(std::span<const std::string>(words));
}

}  // namespace

Script::Script(std::string name, std::string source)
    : name_(std::move(name)), source_(std::move(source)), hash_(sha1(source_)) {}

Command Script::by_hash(std::span<const std::string> keys,
                        std::span<const std::string> args) const {
  return call("EVALSHA", hash_, keys, args);
}

Command Script::by_source(std::span<const std::string> keys,
                          std::span<const std::string> args) const {
  return call("EVAL", source_, keys, args);
}

}  // namespace warren::redis
