#pragma once
// A secret, in a type that no log and no error text can take by mistake.
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace warren::fleet {

class Secret {
 public:
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret&) = default;
  Secret(Secret&&) = default;
  Secret& operator=(const Secret&) = default;
  Secret& operator=(Secret&&) = default;
  ~Secret();  // overwrites it

  const std::string& reveal() const { return text_; }

 private:
  std::string text_;
};

// Whom a token belongs to is known to the server that issued it; some want a name all the same.
inline constexpr std::string_view token_user = "x-access-token";

struct Credential {
  std::string user;
  Secret password;
};

}  // namespace warren::fleet
